-- Questions that people ask, as queries. Try them with: podstead sql "…"
-- A test runs each of them.

-- Which pods are there, and how are they?
SELECT namespace, name, phase, ready || '/' || containers AS ready, restarts, ip, source FROM pods ORDER BY namespace, name;

-- Why is each pod and container in the state it is in?
SELECT namespace, pod, container, state, since, cause, detail FROM why ORDER BY namespace, pod, container;

-- What differs from what is wanted right now, and what will be done about it?
SELECT namespace, pod, container, desired, observed, action, until_at FROM drift;

-- What happened to one pod, in order?
SELECT at, container, "from", event, "to", cause, detail FROM transitions WHERE namespace = 'default' AND pod = 'web' ORDER BY rowid;

-- What ended containers in the last day, by cause?
SELECT cause, count(*) AS times, max(at) AS latest FROM transitions
WHERE machine = 'container' AND "to" = 'Terminated' AND at > strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 day') GROUP BY cause ORDER BY times DESC;

-- Which containers restart most?
SELECT namespace, pod, container, restarts, end_cause, exit_code, backoff_until_at FROM containers WHERE restarts > 0 ORDER BY restarts DESC;

-- Which manifests were refused, where, and why?
SELECT r.source, r.place, r.namespace, r.pod, r.reason, e.value ->> '$.field' AS field, e.value ->> '$.message' AS message
FROM rejections r LEFT JOIN json_each(r.errors) e ORDER BY r.source, r.id;

-- Which source wants what, and can it be read?
SELECT s.id, s.synced, s.last_sync_at, s.last_error, count(p.uid) AS pods FROM sources s LEFT JOIN pods p ON p.source = s.id GROUP BY s.id;

-- Which images does nothing ask for, largest first?
SELECT image_id, group_concat(name, ' ') AS names, size_bytes FROM images GROUP BY image_id HAVING sum(wanted_by) = 0 ORDER BY size_bytes DESC;

-- What did a pod's manifest ask for, as it was submitted?
SELECT c.value ->> '$.name' AS container, c.value ->> '$.image' AS image, c.value ->> '$.resources.limits.memory' AS memory
FROM desired_pods d, json_each(d.manifest, '$.spec.containers') c WHERE d.namespace = 'default' AND d.name = 'web';

-- Which process is which container?
SELECT pid, namespace, pod, container, container_id FROM containers WHERE pid > 0 ORDER BY pid;

-- Which warnings were seen of late?
SELECT last_seen_at, count, namespace, pod, container, reason, message FROM events WHERE type = 'Warning' ORDER BY last_seen_at DESC LIMIT 20;

-- Which tables and views are there, with which columns? (Comments are in the sql column of sqlite_schema.)
SELECT t.type, t.name, c.name AS "column", c.type AS column_type
FROM sqlite_schema t JOIN pragma_table_xinfo(t.name) c WHERE t.type IN ('table', 'view') ORDER BY t.type DESC, t.name, c.cid;

-- Which file or request does each pod come from?
SELECT namespace, name, source, place FROM pods ORDER BY source, place;

-- Which pods are not ready, and since when are they as they are?
SELECT namespace, name, phase, ready, containers, reason, since FROM pods WHERE ready < containers ORDER BY since;

-- Which pods are being deleted, and when will they be killed at the latest?
SELECT namespace, name, deletion_requested_at, deletion_deadline_at FROM pods WHERE deletion_requested_at IS NOT NULL;

-- What failed and waits to be tried again?
SELECT namespace, pod, container, kind, failures, until_at, reason, message FROM backoffs ORDER BY until_at;

-- Which containers ran out of memory, and which limit had they?
SELECT t.at, t.namespace, t.pod, t.container, t.detail, c.value ->> '$.resources.limits.memory' AS memory
FROM transitions t JOIN desired_pods d ON d.uid = t.pod_uid JOIN json_each(d.manifest, '$.spec.containers') c ON c.value ->> '$.name' = t.container
WHERE t.cause = 'oom' AND t.event = 'exit' ORDER BY t.at DESC;

-- How long did each attempt that Podman still has run?
SELECT namespace, pod, container, attempt, started_at, round((julianday(coalesce(finished_at, 'now')) - julianday(started_at)) * 86400, 1) AS seconds, end_cause
FROM observed_containers WHERE started_at IS NOT NULL ORDER BY namespace, pod, container, attempt;

-- Which pods are gone, since when, and why?
SELECT namespace, pod, at, cause, detail FROM transitions WHERE machine = 'pod' AND "to" = 'Gone' ORDER BY at DESC;

-- Which pod has which port of the host?
SELECT d.namespace, d.name AS pod, c.value ->> '$.name' AS container, p.value ->> '$.hostPort' AS host_port, p.value ->> '$.containerPort' AS container_port
FROM desired_pods d, json_each(d.manifest, '$.spec.containers') c, json_each(c.value, '$.ports') p
WHERE p.value ->> '$.hostPort' > 0 ORDER BY host_port;

-- Which directories of the host are mounted, and where?
SELECT d.namespace, d.name AS pod, v.value ->> '$.hostPath.path' AS host_path, c.value ->> '$.name' AS container, m.value ->> '$.mountPath' AS mount_path
FROM desired_pods d, json_each(d.manifest, '$.spec.volumes') v, json_each(d.manifest, '$.spec.containers') c, json_each(c.value, '$.volumeMounts') m
WHERE v.value ->> '$.hostPath' IS NOT NULL AND m.value ->> '$.name' = v.value ->> '$.name' ORDER BY host_path;

-- Which containers have no limit of memory?
SELECT d.namespace, d.name AS pod, c.value ->> '$.name' AS container
FROM desired_pods d, json_each(d.manifest, '$.spec.containers') c WHERE c.value ->> '$.resources.limits.memory' IS NULL ORDER BY 1, 2, 3;

-- Which pods have a label of that value?
SELECT namespace, name FROM desired_pods WHERE manifest ->> '$.metadata.labels.app' = 'web';

-- Which image do which containers run, by its ID?
SELECT image_id, image, group_concat(pod || '/' || container, ' ') AS containers FROM observed_containers WHERE state = 'running' GROUP BY image_id;

-- How often did a source bring each pod into being?
SELECT source, namespace, pod, incarnation, used_at FROM incarnations ORDER BY incarnation DESC;

-- How far back does history go, and how much is there?
SELECT min(at) AS oldest, max(at) AS latest, count(*) AS transitions, (SELECT count(*) FROM events) AS events FROM transitions;

-- Which Podman pods and containers belong to which pod?
SELECT s.namespace, s.pod, s.name AS podman_pod, s.state, c.name AS podman_container, c.state AS container_state
FROM observed_sandboxes s LEFT JOIN observed_containers c ON c.sandbox_id = s.id ORDER BY s.namespace, s.pod, c.container, c.attempt;
