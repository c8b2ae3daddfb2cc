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
