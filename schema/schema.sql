-- Generated from migrations/ by go generate ./internal/store; do not edit.

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

CREATE TABLE desired_containers (
    -- One row is a container of a desired pod, or was one.
    pod_uid   TEXT NOT NULL REFERENCES desired_pods (uid) ON DELETE CASCADE, -- the pod's UID
    container TEXT NOT NULL,    -- the container's name
    namespace TEXT NOT NULL,    -- the pod's namespace
    pod       TEXT NOT NULL,    -- the pod's name
    kind      TEXT NOT NULL,    -- init or container
    ordinal   INTEGER NOT NULL, -- place in the manifest, init containers first, from 0
    image     TEXT NOT NULL,    -- image as the manifest has it
    image_ref TEXT NOT NULL,    -- the same name normalised, as in observed_image_names
    revision  INTEGER NOT NULL, -- changes of the container's defaulted specification times 10^9, plus a hash of the manifest with the last one
    attempt   INTEGER NOT NULL, -- the highest attempt ever used, -1 before the first
    wanted    INTEGER NOT NULL, -- 0 when the manifest no longer has it; kept so that revision and attempt go on if it comes back
    PRIMARY KEY (pod_uid, container)
) STRICT, WITHOUT ROWID;
CREATE INDEX desired_containers_image ON desired_containers (image_ref);

CREATE TABLE desired_pods (
    -- One row is a pod that a source wants, or that is being deleted.
    uid                   TEXT NOT NULL PRIMARY KEY, -- the pod's UID
    namespace             TEXT NOT NULL,             -- its namespace
    name                  TEXT NOT NULL,             -- its name, with the node's as a suffix for static pods
    source                TEXT NOT NULL REFERENCES sources (id), -- the source that owns it
    unit                  TEXT NOT NULL,             -- file, URL or request that it came in
    place                 TEXT NOT NULL,             -- document within the unit
    incarnation           INTEGER NOT NULL,          -- how often this source brought the name into being, this time included
    generation            INTEGER NOT NULL,          -- counts accepted edits, from 1
    revision              INTEGER NOT NULL,          -- pod-wide changes times 10^9, plus a hash of the manifest with the last one; the sandbox carries it
    manifest              TEXT NOT NULL CHECK (json_valid(manifest)), -- canonical JSON as submitted, without defaults
    manifest_hash         TEXT NOT NULL,             -- SHA-256 of manifest, in hex
    created_at            TEXT NOT NULL,             -- when this incarnation was accepted
    deletion_requested_at TEXT,                      -- when its deletion was asked for; NULL: it is wanted
    deletion_grace_ns     INTEGER NOT NULL,          -- time to end by itself, counted from deletion_requested_at; 0 while wanted
    deletion_deadline_at  TEXT,                      -- the end of that time
    deletion_cause        TEXT NOT NULL,             -- who asked for it: a cause as in transitions; empty while wanted
    deletion_detail       TEXT NOT NULL,             -- the same in words
    state                 TEXT NOT NULL,             -- state of the pod machine; empty before its first transition
    state_at              TEXT NOT NULL,             -- when it entered that state
    status                TEXT NOT NULL CHECK (json_valid(status)), -- Kubernetes' PodStatus as last computed; {} at first
    resource_version      INTEGER NOT NULL           -- grows with every change of any row here
) STRICT;
CREATE INDEX desired_pods_name ON desired_pods (namespace, name);
CREATE INDEX desired_pods_unit ON desired_pods (source, unit);
CREATE UNIQUE INDEX desired_pods_wanted ON desired_pods (namespace, name) WHERE deletion_requested_at IS NULL;

CREATE TABLE events (
    -- One row is a Kubernetes event about a pod or a refused manifest; equal events are counted, not repeated.
    id            INTEGER PRIMARY KEY, -- no meaning but order
    namespace     TEXT NOT NULL,    -- the pod's namespace; empty when a refused manifest does not tell
    pod           TEXT NOT NULL,    -- the pod's name; empty likewise
    container     TEXT NOT NULL,    -- the container's name; empty when it is about the pod
    pod_uid       TEXT NOT NULL,    -- the pod's UID; empty when it is about a refused manifest
    type          TEXT NOT NULL,    -- Normal or Warning
    reason        TEXT NOT NULL,    -- one word, such as Pulled or BackOff
    message       TEXT NOT NULL,    -- the same in a sentence
    count         INTEGER NOT NULL, -- how often it was seen
    first_seen_at TEXT NOT NULL,    -- when first
    last_seen_at  TEXT NOT NULL,    -- when last
    UNIQUE (pod_uid, container, type, reason, message)
) STRICT;
CREATE INDEX events_last_seen ON events (last_seen_at);

CREATE TABLE incarnations (
    -- One row counts how often a source brought a pod of this name into being.
    source      TEXT NOT NULL,    -- the source's id
    namespace   TEXT NOT NULL,    -- the pod's namespace
    pod         TEXT NOT NULL,    -- the pod's name
    incarnation INTEGER NOT NULL, -- the latest one, from 1; part of the UID of pods from directories and URLs
    used_at     TEXT NOT NULL,    -- when it began
    PRIMARY KEY (source, namespace, pod)
) STRICT, WITHOUT ROWID;

CREATE TABLE intents (
    -- One row is what the agent is about to do to a container, recorded first so that its end can be explained.
    container_id TEXT NOT NULL PRIMARY KEY, -- Podman's ID
    namespace    TEXT NOT NULL, -- the pod's namespace
    pod          TEXT NOT NULL, -- the pod's name
    container    TEXT NOT NULL, -- the container's name; empty when it has not been observed
    pod_uid      TEXT NOT NULL, -- the pod's UID
    cause        TEXT NOT NULL, -- why: a cause as in transitions
    detail       TEXT NOT NULL, -- the same in words
    at           TEXT NOT NULL  -- when it was recorded
) STRICT, WITHOUT ROWID;
CREATE INDEX intents_pod_uid ON intents (pod_uid);

CREATE TABLE meta (
    -- One row is a fact about this database as a whole.
    key   TEXT NOT NULL PRIMARY KEY, -- node_id, boot_id, resource_version
    value TEXT NOT NULL              -- its value
) STRICT, WITHOUT ROWID;

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

CREATE TABLE observed_image_names (
    -- One row is a name under which an image is present.
    name     TEXT NOT NULL PRIMARY KEY, -- normalised, with tag or digest, such as docker.io/library/nginx:latest
    image_id TEXT NOT NULL REFERENCES observed_images (id) ON DELETE CASCADE, -- the image
    digest   INTEGER NOT NULL           -- 1 when the name ends in a digest
) STRICT, WITHOUT ROWID;
CREATE INDEX observed_image_names_image ON observed_image_names (image_id);

CREATE TABLE observed_images (
    -- One row is an image that Podman holds.
    id         TEXT NOT NULL PRIMARY KEY, -- Podman's ID
    size_bytes INTEGER NOT NULL,          -- its size
    created_at TEXT                       -- when it was built
) STRICT, WITHOUT ROWID;

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
CREATE INDEX observed_sandboxes_name ON observed_sandboxes (namespace, pod);
CREATE INDEX observed_sandboxes_pod_uid ON observed_sandboxes (pod_uid);

CREATE TABLE rejections (
    -- One row is a manifest that was refused, or that waits because another source owns its name.
    id            INTEGER PRIMARY KEY, -- no meaning but order
    source        TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE, -- the source that it came from
    unit          TEXT NOT NULL, -- file, URL or request
    place         TEXT NOT NULL, -- document within the unit
    namespace     TEXT NOT NULL, -- the pod's namespace as far as it could be told
    pod           TEXT NOT NULL, -- the pod's name as far as it could be told
    reason        TEXT NOT NULL, -- Unreadable, Syntax, Invalid or Conflict
    errors        TEXT NOT NULL CHECK (json_valid(errors)), -- array of {field, reason, message, line}
    manifest      TEXT NOT NULL, -- on a conflict: the canonical manifest that takes over when the owner goes; else empty
    manifest_hash TEXT NOT NULL, -- SHA-256 of manifest, in hex
    warnings      TEXT NOT NULL, -- with manifest: array of its fields that have no effect
    first_seen_at TEXT NOT NULL  -- since when it has been refused for this
) STRICT;
CREATE INDEX rejections_pod ON rejections (namespace, pod);
CREATE INDEX rejections_unit ON rejections (source, unit);

CREATE TABLE sources (
    -- One row is a source of manifests.
    id            TEXT NOT NULL PRIMARY KEY, -- unique on the node and stable, such as directory:/etc/podstead/manifests
    kind          TEXT NOT NULL,             -- directory, url or http
    location      TEXT NOT NULL,             -- path or URL; empty for http
    configured    INTEGER NOT NULL,          -- 0 once it is no longer configured and only its last pods are awaited
    synced        INTEGER NOT NULL,          -- 1 once it has been read whole; nothing that it might want is removed before
    last_sync_at  TEXT,                      -- the latest sync that changed anything; one that finds all as before writes nothing
    last_error    TEXT NOT NULL,             -- why it can't be read now; empty: it can
    last_error_at TEXT                       -- since when it can't be read for that reason
) STRICT, WITHOUT ROWID;

CREATE TABLE transitions (
    -- One row is a change of state of a pod or container, and why; the latest of each is kept, others go with age.
    at         TEXT NOT NULL,    -- when
    namespace  TEXT NOT NULL,    -- the pod's namespace
    pod        TEXT NOT NULL,    -- the pod's name
    container  TEXT NOT NULL,    -- the container's name; empty for the pod itself
    pod_uid    TEXT NOT NULL,    -- the pod's UID
    machine    TEXT NOT NULL,    -- pod or container: see the state diagrams
    "from"     TEXT NOT NULL,    -- state before; empty at first
    event      TEXT NOT NULL,    -- what happened
    "to"       TEXT NOT NULL,    -- state after
    cause      TEXT NOT NULL,    -- source, user, probe, exit, oom, eviction, reboot, admission, image, runtime or agent
    detail     TEXT NOT NULL,    -- the same in words
    generation INTEGER NOT NULL, -- generation of the pod at the time; 0 when it is not desired
    attempt    INTEGER NOT NULL  -- attempt at the container
) STRICT;
CREATE INDEX transitions_pod ON transitions (namespace, pod, container);
CREATE INDEX transitions_pod_uid ON transitions (pod_uid, container);

CREATE VIEW containers AS
-- One row is a wanted container with its latest attempt.
SELECT
    c.namespace AS namespace, -- the pod's namespace
    c.pod AS pod, -- the pod's name
    c.container AS container, -- the container's name
    c.pod_uid AS pod_uid, -- the pod's UID
    c.kind AS kind, -- init or container
    c.image AS image, -- image as the manifest has it
    coalesce(o.state, 'absent') AS state, -- absent, created, running, paused, exited, gone or unknown
    coalesce(s.value ->> '$.state.waiting.reason', s.value ->> '$.state.terminated.reason', '') AS reason, -- Kubernetes' reason for waiting or having ended
    coalesce(s.value ->> '$.ready', 0) AS ready, -- 1 when it is ready
    coalesce(s.value ->> '$.restartCount', 0) AS restarts, -- how often it was restarted
    o.attempt AS attempt, -- which attempt it is, from 0
    o.started_at AS started_at, -- when its process started
    o.finished_at AS finished_at, -- when it ended
    CASE WHEN o.end_cause <> '' THEN o.exit_code END AS exit_code, -- how it ended; NULL while it has not
    coalesce(o.end_cause, '') AS end_cause, -- why it ended
    coalesce(o.end_detail, '') AS end_detail, -- the same in words
    b.until_at AS backoff_until_at, -- when the next try may be made; NULL: no back-off
    o.pid AS pid, -- main process as the host sees it
    o.id AS container_id, -- Podman's ID
    o.log_path AS log_path -- where its output goes
FROM desired_containers c
JOIN desired_pods d ON d.uid = c.pod_uid
LEFT JOIN observed_containers o ON o.pod_uid = c.pod_uid AND o.container = c.container AND o.attempt =
    (SELECT max(l.attempt) FROM observed_containers l WHERE l.pod_uid = c.pod_uid AND l.container = c.container)
LEFT JOIN json_each(d.status, CASE c.kind WHEN 'init' THEN '$.initContainerStatuses' ELSE '$.containerStatuses' END) s ON s.value ->> '$.name' = c.container
LEFT JOIN (SELECT pod_uid, container, max(until_at) AS until_at FROM backoffs GROUP BY pod_uid, container) b ON b.pod_uid = c.pod_uid AND b.container = c.container
WHERE c.wanted;

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

CREATE VIEW images AS
-- One row is a name of an image that is present.
SELECT
    n.name AS name, -- normalised, with tag or digest
    n.image_id AS image_id, -- Podman's ID of the image
    i.size_bytes AS size_bytes, -- the image's size
    i.created_at AS created_at, -- when it was built
    (SELECT count(*) FROM desired_containers c WHERE c.wanted AND c.image_ref = n.name) AS wanted_by -- how many wanted containers ask for the name
FROM observed_image_names n
JOIN observed_images i ON i.id = n.image_id;

CREATE VIEW pods AS
-- One row is a pod that is wanted or being deleted.
SELECT
    d.namespace AS namespace, -- its namespace
    d.name AS name, -- its name
    d.uid AS uid, -- its UID
    d.source AS source, -- the source that owns it
    d.place AS place, -- document within the source
    d.state AS state, -- state of the pod machine
    d.state_at AS since, -- when it entered that state
    coalesce(d.status ->> '$.phase', 'Pending') AS phase, -- Kubernetes' phase
    coalesce(d.status ->> '$.reason', '') AS reason, -- why it is in that phase, in one word
    coalesce(d.status ->> '$.message', '') AS message, -- the same in a sentence
    (SELECT count(*) FROM json_each(d.status, '$.containerStatuses') WHERE value ->> '$.ready') AS ready, -- containers that are ready
    (SELECT count(*) FROM desired_containers c WHERE c.pod_uid = d.uid AND c.wanted AND c.kind = 'container') AS containers, -- containers that it has, init containers aside
    (SELECT coalesce(sum(value ->> '$.restartCount'), 0) FROM json_each(d.status, '$.containerStatuses')) AS restarts, -- restarts of all its containers
    coalesce(d.status ->> '$.podIP', '') AS ip, -- its address; the host's with host networking
    d.generation AS generation, -- counts accepted edits, from 1
    d.created_at AS created_at, -- when it was accepted
    d.status ->> '$.startTime' AS started_at, -- when the agent first took it up
    d.deletion_requested_at AS deletion_requested_at, -- when its deletion was asked for; NULL: it is wanted
    d.deletion_deadline_at AS deletion_deadline_at, -- when it will be killed if it has not ended
    d.resource_version AS resource_version -- grows with every change
FROM desired_pods d;

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

CREATE VIEW why AS
-- One row is the latest change of state of a pod or container, and why; pods that are gone included.
SELECT
    t.namespace AS namespace, -- the pod's namespace
    t.pod AS pod, -- the pod's name
    t.container AS container, -- the container's name; empty for the pod itself
    t."to" AS state, -- the state it is in
    t.at AS since, -- since when
    t.cause AS cause, -- who or what brought it about
    t.detail AS detail -- the same in words
FROM transitions t
WHERE t.rowid IN (SELECT max(rowid) FROM transitions GROUP BY namespace, pod, container);
