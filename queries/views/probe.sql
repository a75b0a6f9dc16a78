-- summary: every stored probe, one row a batch size, names joined and rates derived; voided rows are left out
CREATE OR REPLACE VIEW probe AS
SELECT {probe_columns}
FROM raw.stored_probe;
