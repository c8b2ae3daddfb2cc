package store

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

type sandboxRow struct {
	ID        string       `db:"id"`
	Namespace string       `db:"namespace"`
	Pod       string       `db:"pod"`
	PodUID    types.UID    `db:"pod_uid"`
	InfraID   string       `db:"infra_id"`
	Name      string       `db:"name"`
	Attempt   int          `db:"attempt"`
	Revision  int64        `db:"revision"`
	Hash      string       `db:"manifest_hash"`
	State     pod.RunState `db:"state"`
	Run       int          `db:"run"`
	IPs       string       `db:"ips"`
	CreatedAt stamp        `db:"created_at"`
	StartedAt stamp        `db:"started_at"`
	ExitedAt  stamp        `db:"exited_at"`
	ChangedAt stamp        `db:"changed_at"`
}

const selectSandboxes = `SELECT id, namespace, pod, pod_uid, infra_id, name, attempt, revision, manifest_hash, state, run, ips,
	created_at, started_at, exited_at, changed_at FROM observed_sandboxes `

const putSandbox = `REPLACE INTO observed_sandboxes (id, namespace, pod, pod_uid, infra_id, name, attempt, revision, manifest_hash, state, run, ips,
	created_at, started_at, exited_at, changed_at)
	VALUES (:id, :namespace, :pod, :pod_uid, :infra_id, :name, :attempt, :revision, :manifest_hash, :state, :run, :ips,
	:created_at, :started_at, :exited_at, :changed_at)`

func sandboxRowOf(s pod.Sandbox) sandboxRow {
	return sandboxRow{
		ID: s.ID, Namespace: s.Namespace, Pod: s.Key.Name, PodUID: s.UID, InfraID: s.InfraID, Name: s.Name,
		Attempt: s.Attempt, Revision: s.Revision, Hash: s.Hash, State: s.State, IPs: marshal(append([]string{}, s.IPs...)),
		CreatedAt: stampOf(s.CreatedAt), StartedAt: stampOf(s.StartedAt), ExitedAt: stampOf(s.ExitedAt),
	}
}

func (r sandboxRow) sandbox() (pod.Sandbox, error) {
	s := pod.Sandbox{
		Key: pod.Key{Namespace: r.Namespace, Name: r.Pod}, UID: r.PodUID, ID: r.ID, InfraID: r.InfraID, Name: r.Name,
		Attempt: r.Attempt, Revision: r.Revision, Hash: r.Hash, State: r.State, Run: r.Run,
		CreatedAt: r.CreatedAt.Time(), StartedAt: r.StartedAt.Time(), ExitedAt: r.ExitedAt.Time(),
	}
	if err := json.Unmarshal([]byte(r.IPs), &s.IPs); err != nil {
		return s, fmt.Errorf("observed_sandboxes.ips of %s: %w", r.ID, err)
	}
	if len(s.IPs) == 0 {
		s.IPs = nil
	}
	return s, nil
}

type observedRow struct {
	ID         string            `db:"id"`
	Namespace  string            `db:"namespace"`
	Pod        string            `db:"pod"`
	Container  string            `db:"container"`
	PodUID     types.UID         `db:"pod_uid"`
	Kind       pod.ContainerKind `db:"kind"`
	Name       string            `db:"name"`
	SandboxID  string            `db:"sandbox_id"`
	SandboxRun int               `db:"sandbox_run"`
	Attempt    int               `db:"attempt"`
	Revision   int64             `db:"revision"`
	State      pod.RunState      `db:"state"`
	Image      string            `db:"image"`
	ImageID    string            `db:"image_id"`
	PID        int               `db:"pid"`
	ExitCode   int               `db:"exit_code"`
	OOMKilled  bool              `db:"oom_killed"`
	Error      string            `db:"error"`
	LogPath    string            `db:"log_path"`
	CreatedAt  stamp             `db:"created_at"`
	StartedAt  stamp             `db:"started_at"`
	FinishedAt stamp             `db:"finished_at"`
	EndCause   pod.Cause         `db:"end_cause"`
	EndDetail  string            `db:"end_detail"`
	ChangedAt  stamp             `db:"changed_at"`
}

const selectObserved = `SELECT id, namespace, pod, container, pod_uid, kind, name, sandbox_id, sandbox_run, attempt, revision, state, image, image_id,
	pid, exit_code, oom_killed, error, log_path, created_at, started_at, finished_at, end_cause, end_detail, changed_at
	FROM observed_containers `

const putObserved = `REPLACE INTO observed_containers (id, namespace, pod, container, pod_uid, kind, name, sandbox_id, sandbox_run, attempt, revision, state, image, image_id,
	pid, exit_code, oom_killed, error, log_path, created_at, started_at, finished_at, end_cause, end_detail, changed_at)
	VALUES (:id, :namespace, :pod, :container, :pod_uid, :kind, :name, :sandbox_id, :sandbox_run, :attempt, :revision, :state, :image, :image_id,
	:pid, :exit_code, :oom_killed, :error, :log_path, :created_at, :started_at, :finished_at, :end_cause, :end_detail, :changed_at)`

func observedRowOf(c pod.Container) observedRow {
	return observedRow{
		ID: c.ID, Namespace: c.Namespace, Pod: c.Key.Name, Container: c.Container, PodUID: c.UID, Kind: c.Kind, Name: c.Name,
		SandboxID: c.SandboxID, Attempt: c.Attempt, Revision: c.Revision, State: c.State, Image: c.Image, ImageID: c.ImageID,
		PID: c.PID, ExitCode: c.ExitCode, OOMKilled: c.OOMKilled, Error: clip(c.Error), LogPath: c.LogPath,
		CreatedAt: stampOf(c.CreatedAt), StartedAt: stampOf(c.StartedAt), FinishedAt: stampOf(c.FinishedAt),
		EndCause: c.EndCause, EndDetail: clip(c.EndDetail),
	}
}

func (r observedRow) container() pod.Container {
	return pod.Container{
		Key: pod.Key{Namespace: r.Namespace, Name: r.Pod}, UID: r.PodUID, Container: r.Container, Kind: r.Kind, ID: r.ID, Name: r.Name,
		SandboxID: r.SandboxID, SandboxRun: r.SandboxRun, Attempt: r.Attempt, Revision: r.Revision, State: r.State, Image: r.Image, ImageID: r.ImageID,
		PID: r.PID, ExitCode: r.ExitCode, OOMKilled: r.OOMKilled, Error: r.Error, LogPath: r.LogPath,
		CreatedAt: r.CreatedAt.Time(), StartedAt: r.StartedAt.Time(), FinishedAt: r.FinishedAt.Time(),
		EndCause: r.EndCause, EndDetail: r.EndDetail,
	}
}

// ended reports whether the row's process is over.
func (r observedRow) ended() bool { return r.State == pod.RunExited || r.State == pod.RunGone }

// ran reports whether it had a process, or a try to start one failed.
func (r observedRow) ran() bool { return r.StartedAt != "" || r.FinishedAt != "" || r.Error != "" }

// observation is what was observed of one pod, images aside.
func (t *ReadTx) observation(uid types.UID) (pod.Observation, error) {
	list, err := t.observations(`WHERE pod_uid = ?`, uid)
	if err != nil || len(list) == 0 {
		return pod.Observation{}, err
	}
	return list[0], nil
}

// observations is what was observed of the pods that the condition selects,
// grouped by pod.
func (t *ReadTx) observations(where string, args ...any) ([]pod.Observation, error) {
	var sandboxes []sandboxRow
	if err := t.Select(&sandboxes, selectSandboxes+where+` ORDER BY pod_uid, attempt, id`, args...); err != nil {
		return nil, err
	}
	var containers []observedRow
	if err := t.Select(&containers, selectObserved+where+` ORDER BY pod_uid, container, attempt, id`, args...); err != nil {
		return nil, err
	}
	var list []pod.Observation
	index := map[types.UID]int{}
	of := func(uid types.UID) *pod.Observation {
		if _, ok := index[uid]; !ok {
			index[uid] = len(list)
			list = append(list, pod.Observation{})
		}
		return &list[index[uid]]
	}
	for _, r := range sandboxes {
		s, err := r.sandbox()
		if err != nil {
			return nil, err
		}
		o := of(r.PodUID)
		o.Sandboxes = append(o.Sandboxes, s)
	}
	for _, r := range containers {
		o := of(r.PodUID)
		o.Containers = append(o.Containers, r.container())
	}
	return list, nil
}

// UIDs lists every desired pod, those being deleted included, oldest first.
func (s *Store) UIDs(ctx context.Context) ([]types.UID, error) {
	var uids []types.UID
	err := s.Read(ctx, func(t *ReadTx) error {
		return t.Select(&uids, `SELECT uid FROM desired_pods ORDER BY created_at, rowid`)
	})
	return uids, err
}

// notGone selects rows about pods that are not known to be gone.
const notGone = `pod_uid NOT IN (SELECT t.pod_uid FROM transitions t WHERE t.container = '' AND t."to" = 'Gone')`

// Orphans lists what was observed of pods that nobody desires and that are to go.
// It is empty until Configure was called and every configured source has synced
// once. Pods that were submitted are no orphans while nobody wants their name;
// see Unwanted.
func (s *Store) Orphans(ctx context.Context) ([]pod.Observation, error) {
	if !s.configured.Load() {
		return nil, nil
	}
	var list []pod.Observation
	err := s.Read(ctx, func(t *ReadTx) error {
		var waiting int
		if err := t.Get(&waiting, `SELECT count(*) FROM sources WHERE configured AND NOT synced`); err != nil || waiting > 0 {
			return err
		}
		var err error
		list, err = t.observations(`WHERE pod_uid IN (SELECT u.pod_uid FROM unwanted u WHERE NOT u.kept)`)
		return err
	})
	return list, err
}

// Unwanted is a pod that was observed and that nobody desires.
type Unwanted struct {
	Key pod.Key
	UID types.UID
	// Kept: it was submitted over HTTP to a database that is lost with its backup,
	// and no source will bring it back. It runs on until its name is asked for or
	// its deletion is.
	Kept bool
}

// Unwanted lists the pods that were observed and that nobody desires.
func (s *Store) Unwanted(ctx context.Context) ([]Unwanted, error) {
	var rows []struct {
		Namespace string    `db:"namespace"`
		Pod       string    `db:"pod"`
		UID       types.UID `db:"pod_uid"`
		Kept      bool      `db:"kept"`
	}
	err := s.Read(ctx, func(t *ReadTx) error {
		return t.Select(&rows, `SELECT namespace, pod, pod_uid, kept FROM unwanted ORDER BY namespace, pod, pod_uid`)
	})
	list := make([]Unwanted, len(rows))
	for i, r := range rows {
		list[i] = Unwanted{Key: pod.Key{Namespace: r.Namespace, Name: r.Pod}, UID: r.UID, Kept: r.Kept}
	}
	return list, err
}

// Sandbox is a sandbox as it was last observed; NotFound if never.
func (s *Store) Sandbox(ctx context.Context, id string) (pod.Sandbox, error) {
	var box pod.Sandbox
	err := s.Read(ctx, func(t *ReadTx) error {
		var row sandboxRow
		found, err := t.find(&row, selectSandboxes+`WHERE id = ?`, id)
		if err == nil && !found {
			return notFound("read sandbox", id)
		}
		if err != nil {
			return err
		}
		box, err = row.sandbox()
		return err
	})
	return box, err
}

// Container is a container as it was last observed; NotFound if never.
func (s *Store) Container(ctx context.Context, id string) (pod.Container, error) {
	var row observedRow
	err := s.Read(ctx, func(t *ReadTx) error {
		found, err := t.find(&row, selectObserved+`WHERE id = ?`, id)
		if err == nil && !found {
			return notFound("read container", id)
		}
		return err
	})
	return row.container(), err
}
