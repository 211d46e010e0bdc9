-- The number of the last step that was taken: one row.
CREATE TABLE ringfence_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO ringfence_schema (version) VALUES (1);

-- The greatest fence seen at a scope under each mode; 0: never. Never lowered, never deleted.
CREATE TABLE ringfence_marks (
    cluster TEXT NOT NULL,
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL COLLATE BINARY,
    exclusive INTEGER NOT NULL CHECK (exclusive BETWEEN 0 AND 9007199254740991),
    shared INTEGER NOT NULL CHECK (shared BETWEEN 0 AND 9007199254740991),
    optimistic INTEGER NOT NULL CHECK (optimistic BETWEEN 0 AND 9007199254740991),
    PRIMARY KEY (cluster, tenant, scope)
) STRICT, WITHOUT ROWID;

-- The latest life of a cluster, and a fence that was granted in it.
CREATE TABLE ringfence_lives (
    cluster TEXT NOT NULL PRIMARY KEY,
    incarnation TEXT NOT NULL,
    witness INTEGER NOT NULL CHECK (witness BETWEEN 1 AND 9007199254740991)
) STRICT, WITHOUT ROWID;
