package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	sigsjson "sigs.k8s.io/json"

	"podstead.io/podstead/internal/pod"
)

// Restore decodes a stored manifest and defaults it by this binary. It never
// validates: what was accepted once stays accepted. Fields that this binary
// does not know are left out. The error is of class Internal: the text is not
// JSON, or not a pod's.
func Restore(manifest []byte) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(manifest, p); err != nil {
		return nil, &pod.Error{Class: pod.Internal, Op: "decode stored manifest", Err: err}
	}
	corev1defaults.SetObjectDefaults_Pod(p)
	return p, nil
}

// build makes a submission of an object whose name is final.
func (u *unitParser) build(o object) (pod.Submission, faults) {
	c := &checker{root: o.root, nodeName: u.nodeName, static: u.kind.Static()}
	s, err := u.submission(c, o)
	if err != nil {
		c.fault(nil, causeInvalid, "%s", err)
	}
	if len(c.faults) > 0 {
		return pod.Submission{}, c.faults
	}
	return s, nil
}

// submission carries the steps out. Everything submitted is validated, what is
// going to be taken away included, so that errors have the paths that the
// author knows; what it returns counts only if the checker found no fault.
func (u *unitParser) submission(c *checker, o object) (pod.Submission, error) {
	clean := c.pod(o.value)
	submitted, err := restoreTree(clean)
	if err != nil {
		return pod.Submission{}, err
	}
	if err := c.compareUnsupported(clean, submitted); err != nil {
		return pod.Submission{}, err
	}
	c.checkLocal(submitted)
	warnings, err := c.validate(submitted)
	if err != nil {
		return pod.Submission{}, err
	}
	canonical, err := encode(remove(clean, c.taken))
	if err != nil {
		return pod.Submission{}, err
	}
	if len(canonical) > u.limits.PodBytes {
		return pod.Submission{}, fmt.Errorf("the pod is larger than %d bytes; leave some of it out", u.limits.PodBytes)
	}
	p, err := Restore(canonical)
	if err != nil {
		return pod.Submission{}, err
	}
	sum := sha256.Sum256(canonical)
	return pod.Submission{
		Pod: p, Manifest: canonical, Hash: hex.EncodeToString(sum[:]),
		Warnings: append(c.takenWarnings(), warnings...),
	}, nil
}

// restoreTree decodes and defaults a tree that the checker has cleaned.
func restoreTree(tree any) (*corev1.Pod, error) {
	text, err := encode(tree)
	if err != nil {
		return nil, err
	}
	return Restore(text)
}

// encode is JSON with sorted keys and nothing escaped that need not be.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// compareUnsupported refuses each unsupported value, unless Kubernetes'
// defaulting gives the very same pod when it is left out.
func (c *checker) compareUnsupported(clean map[string]any, submitted *corev1.Pod) error {
	if len(c.unsupported) == 0 {
		return nil
	}
	leftOut, err := restoreTree(remove(clean, c.unsupported))
	if err != nil {
		return err
	}
	with, err := generic(submitted)
	if err != nil {
		return err
	}
	without, err := generic(leftOut)
	if err != nil {
		return err
	}
	for _, f := range c.unsupported {
		if reflect.DeepEqual(significant(valueAt(with, f.at)), significant(valueAt(without, f.at))) {
			c.taken = append(c.taken, finding{f.at, &noOpRule})
			continue
		}
		switch r := f.rule; {
		case r == nil:
			c.fault(f.at, causeForbidden, "not supported yet; remove it")
		case r.verdict == refused:
			c.fault(f.at, causeForbidden, "not supported yet: %s", r.note)
		case r.note == "":
			c.fault(f.at, causeNotSupported, "not supported yet; it can only be %s", strings.Join(r.values, " or "))
		default:
			c.fault(f.at, causeNotSupported, "not supported yet; it can only be %s: %s", strings.Join(r.values, " or "), r.note)
		}
	}
	return nil
}

// noOpRule is for values that say what leaving them out says.
var noOpRule = rule{verdict: harmless}

// generic is an object as its JSON has it.
func generic(p *corev1.Pod) (any, error) {
	text, err := encode(p)
	if err != nil {
		return nil, err
	}
	return jsonValue(text)
}

// takenWarnings says what was submitted and has no effect.
func (c *checker) takenWarnings() []string {
	var warnings, cluster []string
	said := map[string]bool{}
	for _, f := range c.taken {
		switch {
		case f.rule.verdict == owned:
			cluster = append(cluster, f.at.String())
		case f.rule.warning != "" && !said[f.rule.warning]:
			said[f.rule.warning] = true
			warnings = append(warnings, f.at.String()+": "+f.rule.warning)
		}
	}
	if len(cluster) > 0 {
		warnings = append(warnings, "left out, as only a cluster sets it: "+strings.Join(cluster, ", "))
	}
	return warnings
}
