SELECT
    count(*) FILTER (first AND second) AS of_both, count(*) FILTER (NOT second) AS of_first,
    count(*) FILTER (NOT first) AS of_second
FROM (
    SELECT subject, batch_size, bool_or(question_group = 0) AS first, bool_or(question_group = 1) AS second
    FROM scoped
    GROUP BY subject, batch_size
);
