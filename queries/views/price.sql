-- summary: dated device prices and power
CREATE OR REPLACE VIEW price AS
SELECT * FROM raw.price;
