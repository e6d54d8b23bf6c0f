BEGIN TRANSACTION;
CREATE TABLE events (
            position INTEGER PRIMARY KEY,
            run TEXT NOT NULL REFERENCES runs (run),
            seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            at REAL NOT NULL,
            kind TEXT NOT NULL,
            data BLOB NOT NULL,
            UNIQUE (run, seq)
        ) STRICT
        ;
INSERT INTO "events" VALUES(1,'r',1,1,1.5,'run.opened',X'7B7D');
INSERT INTO "events" VALUES(2,'r',2,1,2.5,'said',X'7B2261223A20317D');
INSERT INTO "events" VALUES(3,'r',3,1,2.5,'said',X'7B22C3A4223A2022F09F9880227D');
INSERT INTO "events" VALUES(4,'r',4,1,4.5,'answered',X'7B0A2262223A206E756C6C7D');
INSERT INTO "events" VALUES(5,'r',5,2,5.5,'run.resumed',X'7B7D');
INSERT INTO "events" VALUES(6,'r',6,2,6.5,'ended',X'7B7D');
CREATE TABLE runs (
            run TEXT PRIMARY KEY,
            workspace TEXT NOT NULL,
            name TEXT NOT NULL,
            created REAL NOT NULL,
            epoch INTEGER NOT NULL,
            owner TEXT,
            renewed REAL NOT NULL,
            state TEXT NOT NULL,
            last INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
        ;
INSERT INTO "runs" VALUES('r','/srv/ä','nightly',1.5,2,NULL,8.5,'completed',6);
INSERT INTO "runs" VALUES('s','/srv','',3.5,1,'{"machine":"machine","boot":"boot","namespace":4026531836,"pid":4711,"started":123456}',7.5,'new',0);
CREATE INDEX runs_of_workspace ON runs (workspace, created);
COMMIT;
PRAGMA application_id = 1400128121;
PRAGMA user_version = 1;
