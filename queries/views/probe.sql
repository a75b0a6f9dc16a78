-- summary: every stored probe, one row a batch size, names joined and rates derived; voided rows are left out
CREATE OR REPLACE VIEW probe AS
{probe_select};
