-- summary: joint distribution of each load: requests by bin of TTFT and of TPOT, in five batches
CREATE OR REPLACE VIEW load_cell AS
SELECT * FROM raw.load_cell;
