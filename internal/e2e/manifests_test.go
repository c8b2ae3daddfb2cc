package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// grace is short, so that what ignores SIGTERM holds up no test.
const grace int64 = 2

// newPod is a pod as a person writes it, and nothing more.
func newPod(name string, containers ...corev1.Container) *corev1.Pod {
	seconds := grace
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &seconds, Containers: containers},
	}
}

// shell is a container that runs a script.
func shell(name, script string) corev1.Container {
	return corev1.Container{Name: name, Image: "busybox", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", script}}
}

// sleeping does nothing until SIGTERM, and then ends well.
const sleeping = `trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done`

func sleeper(name string) corev1.Container { return shell(name, sleeping) }

// with sets a variable, which makes the container another one.
func with(c corev1.Container, name, value string) corev1.Container {
	c.Env = append(append([]corev1.EnvVar{}, c.Env...), corev1.EnvVar{Name: name, Value: value})
	return c
}

// manifest is a file with the pods, one document each.
func manifest(t *testing.T, pods ...*corev1.Pod) []byte {
	t.Helper()
	var documents [][]byte
	for _, p := range pods {
		document, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n"))
}

// put writes a file as tools do that care: aside, and then moved into its place.
func (a *agent) put(t *testing.T, file string, content []byte) {
	t.Helper()
	aside := filepath.Join(a.host.Dir, "aside")
	if err := errors.Join(os.WriteFile(aside, content, 0o600), os.Rename(aside, filepath.Join(a.manifests, file))); err != nil {
		t.Fatal(err)
	}
}

// write writes a file in place, as editors do that don't care.
func (a *agent) write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.manifests, file), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// drop puts a file that holds the pod and is named after it.
func (a *agent) drop(t *testing.T, p *corev1.Pod) {
	t.Helper()
	a.put(t, p.Name+".yaml", manifest(t, p))
}

// remove removes a file.
func (a *agent) remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(a.manifests, file)); err != nil {
		t.Fatal(err)
	}
}
