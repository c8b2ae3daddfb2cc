-- +goose Up

-- Which run of its sandbox a container was started in tells whether it has its
-- network; the times of their starts do not, since the clock may be set back.
CREATE TABLE was_sandboxes AS SELECT * FROM observed_sandboxes;
CREATE TABLE was_containers AS SELECT * FROM observed_containers;
CREATE TABLE was_backoffs AS SELECT * FROM backoffs;
DROP TABLE observed_sandboxes;
DROP TABLE observed_containers;
DROP TABLE backoffs;

CREATE TABLE observed_sandboxes (
    -- One row is a Podman pod with its infra container.
    id         TEXT NOT NULL PRIMARY KEY, -- Podman's ID of the pod
    namespace  TEXT NOT NULL,             -- the Kubernetes pod's namespace
    pod        TEXT NOT NULL,             -- its name
    pod_uid    TEXT NOT NULL,             -- its UID
    infra_id   TEXT NOT NULL,             -- Podman's ID of the infra container
    name       TEXT NOT NULL,             -- Podman's name of the pod
    attempt    INTEGER NOT NULL,          -- which sandbox of the pod it is, from 0
    revision   INTEGER NOT NULL,          -- revision of the desired pod that it was made for
    manifest_hash TEXT NOT NULL,          -- hash of the manifest that it was made for
    state      TEXT NOT NULL,             -- state of the infra container: created, running, paused, exited, unknown
    run        INTEGER NOT NULL,          -- counts the runs of the infra container that were seen, 0 before the first
    ips        TEXT NOT NULL CHECK (json_valid(ips)), -- array of addresses, primary first; empty with host networking
    created_at TEXT,                      -- when Podman made it
    started_at TEXT,                      -- when its infra container last started
    exited_at  TEXT,                      -- when it last ended
    changed_at TEXT NOT NULL              -- when this row last changed
) STRICT, WITHOUT ROWID;

CREATE INDEX observed_sandboxes_pod_uid ON observed_sandboxes (pod_uid);
CREATE INDEX observed_sandboxes_name ON observed_sandboxes (namespace, pod);

CREATE TABLE observed_containers (
    -- One row is a container that Podman has, or the latest attempt at a wanted one that vanished.
    id          TEXT NOT NULL PRIMARY KEY, -- Podman's ID
    namespace   TEXT NOT NULL,    -- the pod's namespace
    pod         TEXT NOT NULL,    -- the pod's name
    container   TEXT NOT NULL,    -- the container's name in the pod
    pod_uid     TEXT NOT NULL,    -- the pod's UID
    kind        TEXT NOT NULL,    -- init or container
    name        TEXT NOT NULL,    -- Podman's name
    sandbox_id  TEXT NOT NULL,    -- the Podman pod that it is in
    sandbox_run INTEGER NOT NULL, -- run of the sandbox that it was started in; 0 before its start
    attempt     INTEGER NOT NULL, -- which attempt it is, from 0
    revision    INTEGER NOT NULL, -- revision of the desired container that it was made for
    state       TEXT NOT NULL,    -- created, running, paused, exited, gone (removed) or unknown
    image       TEXT NOT NULL,    -- image as it was asked for
    image_id    TEXT NOT NULL,    -- ID of the image that it runs
    pid         INTEGER NOT NULL, -- main process as the host sees it; 0 when not running
    exit_code   INTEGER NOT NULL, -- meaningful once it has ended
    oom_killed  INTEGER NOT NULL, -- 1 when the kernel killed it for memory
    error       TEXT NOT NULL,    -- what Podman said when its process could not be started
    log_path    TEXT NOT NULL,    -- where its output goes
    created_at  TEXT,             -- when Podman made it
    started_at  TEXT,             -- when its process last started; NULL before
    finished_at TEXT,             -- when it ended
    end_cause   TEXT NOT NULL,    -- why it ended: a cause as in transitions; empty while it has not
    end_detail  TEXT NOT NULL,    -- the same in words
    changed_at  TEXT NOT NULL     -- when this row last changed
) STRICT, WITHOUT ROWID;

CREATE INDEX observed_containers_pod_uid ON observed_containers (pod_uid, container, attempt);

CREATE TABLE backoffs (
    -- One row is an operation that failed and must wait before the next try.
    pod_uid   TEXT NOT NULL REFERENCES desired_pods (uid) ON DELETE CASCADE, -- the pod's UID
    container TEXT NOT NULL,    -- the container's name; empty when it is about the pod
    kind      TEXT NOT NULL,    -- crash, image, create, sandbox, volume or remove
    namespace TEXT NOT NULL,    -- the pod's namespace
    pod       TEXT NOT NULL,    -- the pod's name
    failures  INTEGER NOT NULL, -- failures in a row
    until_at  TEXT,             -- when the next try may be made
    last_at   TEXT,             -- when the last failure was
    reason    TEXT NOT NULL,    -- Kubernetes' waiting reason, such as ImagePullBackOff
    message   TEXT NOT NULL,    -- what the runtime or registry said
    unavailable INTEGER NOT NULL, -- 1 when Podman gave no answer: the wait is over as soon as it does
    PRIMARY KEY (pod_uid, container, kind)
) STRICT, WITHOUT ROWID;

INSERT INTO observed_sandboxes SELECT id, namespace, pod, pod_uid, infra_id, name, attempt, revision, manifest_hash, state,
    iif(started_at IS NULL, 0, 1), ips, created_at, started_at, exited_at, changed_at
FROM was_sandboxes;

INSERT INTO observed_containers SELECT c.id, c.namespace, c.pod, c.container, c.pod_uid, c.kind, c.name, c.sandbox_id,
    coalesce(c.started_at >= b.started_at, 0), c.attempt, c.revision, c.state, c.image, c.image_id, c.pid, c.exit_code, c.oom_killed,
    c.error, c.log_path, c.created_at, c.started_at, c.finished_at, c.end_cause, c.end_detail, c.changed_at
FROM was_containers c
LEFT JOIN was_sandboxes b ON b.id = c.sandbox_id;

INSERT INTO backoffs SELECT pod_uid, container, kind, namespace, pod, failures, until_at, last_at, reason, message, 0 FROM was_backoffs;

DROP TABLE was_sandboxes;
DROP TABLE was_containers;
DROP TABLE was_backoffs;

-- A source may tell of some of its units only.
DROP INDEX desired_pods_source;
CREATE INDEX desired_pods_unit ON desired_pods (source, unit);
DROP INDEX rejections_source;
CREATE INDEX rejections_unit ON rejections (source, unit);

-- Pods that were submitted have random UIDs; those of static pods follow from
-- their place, and their sources bring them back.
CREATE VIEW unwanted AS
-- One row is a pod that was observed and that nobody desires.
SELECT
    o.namespace AS namespace, -- the pod's namespace
    o.pod AS pod, -- the pod's name
    o.pod_uid AS pod_uid, -- the pod's UID
    substr(o.pod_uid, 15, 1) = '4' AND (o.namespace, o.pod) NOT IN (SELECT namespace, name FROM desired_pods)
        AND NOT EXISTS (SELECT 1 FROM transitions t WHERE t.pod_uid = o.pod_uid AND t.container = '' AND t."to" = 'Gone') AS kept -- 1 when it was submitted over HTTP to a database that is lost: it runs on until its name is asked for or its deletion is
FROM (SELECT namespace, pod, pod_uid FROM observed_sandboxes UNION SELECT namespace, pod, pod_uid FROM observed_containers) o
WHERE NOT EXISTS (SELECT 1 FROM desired_pods d WHERE d.uid = o.pod_uid);

DROP VIEW drift;
-- The states and restart rules below are lifecycle's, told in SQL.
CREATE VIEW drift AS
-- One row is a difference between what is desired and what is observed, and what will be done about it.
WITH
wanted AS (
    SELECT d.*, coalesce(d.manifest ->> '$.spec.restartPolicy', 'Always') AS policy,
        EXISTS (SELECT 1 FROM desired_pods p WHERE p.namespace = d.namespace AND p.name = d.name AND p.deletion_requested_at IS NOT NULL) AS succeeds
    FROM desired_pods d
    WHERE d.deletion_requested_at IS NULL
),
active AS (
    SELECT * FROM wanted WHERE NOT succeeds AND state NOT IN ('Succeeded', 'Failed', 'Evicted')
),
latest AS (
    SELECT o.*, max(o.attempt) FROM observed_containers o GROUP BY o.pod_uid, o.container
),
attempts AS (
    SELECT c.*, a.policy, l.id AS id, l.state AS state, l.revision AS has_revision, l.attempt AS has_attempt, l.end_cause AS end_cause,
        CASE WHEN l.state = 'gone' AND l.finished_at IS NULL THEN 137 ELSE l.exit_code END AS exit_code,
        (SELECT max(b.until_at) FROM backoffs b WHERE b.pod_uid = c.pod_uid AND b.container = c.container) AS until_at,
        EXISTS (SELECT 1 FROM observed_image_names n WHERE n.name = c.image_ref) AS has_image
    FROM desired_containers c
    JOIN active a ON a.uid = c.pod_uid
    LEFT JOIN latest l ON l.pod_uid = c.pod_uid AND l.container = c.container
    WHERE c.wanted
),
due AS (
    SELECT t.*,
        CASE
            WHEN state IS NULL THEN 1
            WHEN has_revision <> revision OR state IN ('created', 'unknown') THEN 1
            WHEN state IN ('running', 'paused') THEN 0
            WHEN end_cause IN ('source', 'agent') THEN 1
            WHEN policy = 'Never' THEN 0
            WHEN policy = 'OnFailure' OR kind = 'init' THEN exit_code <> 0
            ELSE 1
        END AS is_due,
        EXISTS (SELECT 1 FROM latest i WHERE i.pod_uid = t.pod_uid AND i.kind = 'container' AND i.started_at IS NOT NULL) AS initialized,
        EXISTS (SELECT 1 FROM attempts i WHERE i.pod_uid = t.pod_uid AND i.kind = 'init' AND i.ordinal < t.ordinal
            AND NOT (coalesce(i.state, '') IN ('exited', 'gone') AND i.exit_code = 0)) AS held
    FROM attempts t
)
SELECT
    d.namespace AS namespace, -- the pod's namespace
    d.name AS pod, -- the pod's name
    '' AS container, -- the container's name; empty when it is about the pod or its sandbox
    d.uid AS pod_uid, -- the pod's UID
    'deleted' AS desired, -- what is wanted
    format('%d sandboxes and %d containers',
        (SELECT count(*) FROM observed_sandboxes s WHERE s.pod_uid = d.uid),
        (SELECT count(*) FROM observed_containers o WHERE o.pod_uid = d.uid AND o.state <> 'gone')) AS observed, -- what is there
    'stop and remove' AS action, -- what the reconciler will do
    max(d.deletion_deadline_at, coalesce((SELECT max(b.until_at) FROM backoffs b WHERE b.pod_uid = d.uid AND b.kind = 'remove'), '')) AS until_at -- when at the latest, or not before; NULL: at once
FROM desired_pods d
WHERE d.deletion_requested_at IS NOT NULL
UNION ALL
SELECT namespace, name, '', uid, 'running', 'an earlier pod of this name is terminating', 'wait until it is gone', NULL
FROM wanted
WHERE succeeds
UNION ALL
SELECT a.namespace, a.name, '', a.uid, format('sandbox of revision %d', a.revision / 1000000000), iif(s.id IS NULL, 'no sandbox', format('sandbox is %s', s.state)),
    iif(s.id IS NULL, 'create sandbox', 'start sandbox'),
    (SELECT max(b.until_at) FROM backoffs b WHERE b.pod_uid = a.uid AND b.container = '')
FROM active a
LEFT JOIN observed_sandboxes s ON s.pod_uid = a.uid AND s.revision = a.revision
WHERE s.state IS NULL OR s.state NOT IN ('running', 'paused')
UNION ALL
SELECT s.namespace, s.pod, '', s.pod_uid, format('sandbox of revision %d', w.revision / 1000000000),
    format('sandbox of %srevision %d', iif(w.revision / 1000000000 = s.revision / 1000000000, 'another ', ''), s.revision / 1000000000), 'replace sandbox', NULL
FROM observed_sandboxes s
JOIN wanted w ON w.uid = s.pod_uid AND w.revision <> s.revision
UNION ALL
SELECT namespace, pod, container, pod_uid, format('running, revision %d', revision / 1000000000),
    CASE
        WHEN state IS NULL THEN 'absent'
        WHEN has_revision = revision THEN state
        ELSE format('%s, %srevision %d', state, iif(has_revision / 1000000000 = revision / 1000000000, 'another ', ''), has_revision / 1000000000)
    END,
    CASE
        WHEN kind = 'container' AND held AND NOT initialized THEN 'wait for init containers'
        WHEN state IN ('running', 'paused') THEN 'replace'
        WHEN NOT has_image THEN 'pull image and start'
        WHEN state IS NULL OR state = 'created' THEN 'start'
        ELSE format('start attempt %d', max(attempt, has_attempt + 1))
    END,
    until_at
FROM due
WHERE is_due AND NOT (kind = 'init' AND (initialized OR held))
UNION ALL
SELECT o.namespace, o.pod, o.container, o.pod_uid, 'absent', format('%s, attempt %d', o.state, o.attempt), 'stop and remove', NULL
FROM observed_containers o
JOIN wanted w ON w.uid = o.pod_uid
WHERE o.state <> 'gone' AND NOT EXISTS (SELECT 1 FROM desired_containers c WHERE c.pod_uid = o.pod_uid AND c.container = o.container AND c.wanted)
UNION ALL
SELECT namespace, pod, '', pod_uid, 'absent', 'a pod that nobody wants',
    CASE
        WHEN EXISTS (SELECT 1 FROM sources WHERE configured AND NOT synced) THEN 'wait until every source has synced'
        WHEN kept THEN 'none: submit it again, or delete it'
        ELSE 'stop and remove'
    END, NULL
FROM unwanted;
