package pod

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// Labels on everything that Podstead makes in Podman. The first four are the
// ones that kubelet gives to its runtimes. Adoption reads nothing else, and
// nothing without LabelNode is ever touched.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	LabelNode          = "io.podstead.node"
	LabelKind          = "io.podstead.kind"
	LabelAttempt       = "io.podstead.attempt"
	LabelRevision      = "io.podstead.revision"
	LabelSubmittedHash = "io.podstead.submitted-hash"
)

// Identity is what the labels say.
type Identity struct {
	Key
	UID       types.UID
	Node      string // the node's identity, not its host name
	Kind      ContainerKind
	Container string // "POD" on sandboxes, as kubelet has it
	Attempt   int
	Revision  int64
	Hash      string
}

// SandboxContainerName is the container name on a sandbox's labels.
const SandboxContainerName = "POD"

// Labels are the labels that carry the identity.
func (i Identity) Labels() map[string]string {
	return map[string]string{
		LabelPodName:       i.Name,
		LabelPodNamespace:  i.Namespace,
		LabelPodUID:        string(i.UID),
		LabelContainerName: i.Container,
		LabelNode:          i.Node,
		LabelKind:          string(i.Kind),
		LabelAttempt:       strconv.Itoa(i.Attempt),
		LabelRevision:      strconv.FormatInt(i.Revision, 10),
		LabelSubmittedHash: i.Hash,
	}
}

// ParseLabels reads an identity back. It fails with class Invalid when a label
// is missing or malformed; the caller leaves such an object alone.
func ParseLabels(labels map[string]string) (Identity, error) {
	id := Identity{
		Key:       Key{Namespace: labels[LabelPodNamespace], Name: labels[LabelPodName]},
		UID:       types.UID(labels[LabelPodUID]),
		Node:      labels[LabelNode],
		Kind:      ContainerKind(labels[LabelKind]),
		Container: labels[LabelContainerName],
		Hash:      labels[LabelSubmittedHash],
	}
	if id.Name == "" || id.Namespace == "" || id.UID == "" || id.Node == "" || id.Container == "" {
		return Identity{}, &Error{Class: Invalid, Op: "read labels", Object: string(id.UID), Err: fmt.Errorf("a label of %s, %s, %s, %s, %s is missing", LabelPodName, LabelPodNamespace, LabelPodUID, LabelNode, LabelContainerName)}
	}
	switch id.Kind {
	case KindSandbox, KindInit, KindContainer:
	default:
		return Identity{}, &Error{Class: Invalid, Op: "read label " + LabelKind, Object: string(id.UID), Err: fmt.Errorf("unknown kind %q", id.Kind)}
	}
	var err error
	if id.Attempt, err = strconv.Atoi(labels[LabelAttempt]); err != nil {
		return Identity{}, &Error{Class: Invalid, Op: "read label " + LabelAttempt, Object: string(id.UID), Err: err}
	}
	if id.Revision, err = strconv.ParseInt(labels[LabelRevision], 10, 64); err != nil {
		return Identity{}, &Error{Class: Invalid, Op: "read label " + LabelRevision, Object: string(id.UID), Err: err}
	}
	return id, nil
}

// RuntimeName is the name in Podman of a container with this identity, as
// kubelet's dockershim had it: k8s_<container>_<pod>_<namespace>_<uid>_<attempt>.
// The infra container's name is that with the container POD.
func (i Identity) RuntimeName() string {
	return fmt.Sprintf("k8s_%s_%s_%s_%s_%d", i.Container, i.Name, i.Namespace, i.UID, i.Attempt)
}

// SandboxName is the name of the Podman pod.
func (i Identity) SandboxName() string {
	return fmt.Sprintf("k8s_%s_%s_%s", i.Name, i.Namespace, i.UID)
}
