-- summary: models by their normalised hyper-parameters
CREATE OR REPLACE VIEW model AS
SELECT * FROM raw.model;
