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
