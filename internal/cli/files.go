package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// standardInput is what standard input is called, as kubectl does.
const standardInput = "STDIN"

// manifestFile is one file to apply or delete.
type manifestFile struct {
	name string
	text string
}

// readManifests reads files and directories, the latter in the order of names.
func (s *session) readManifests(ctx context.Context, paths []string, recursive bool) ([]manifestFile, error) {
	var files []manifestFile
	for _, p := range paths {
		if p == "-" {
			text, err := s.readInput(ctx, p)
			if err != nil {
				return nil, err
			}
			files = append(files, manifestFile{name: standardInput, text: text})
			continue
		}
		names, err := manifestNames(p, recursive)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := s.readInput(ctx, name)
			if err != nil {
				return nil, err
			}
			files = append(files, manifestFile{name: name, text: text})
		}
	}
	return files, nil
}

// manifestNames is path itself when it is a file, and else the .yaml, .yml and
// .json files in it.
func manifestNames(path string, recursive bool) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var names []string
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != path && !recursive:
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			names = append(names, name)
		}
		return nil
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s holds no .yaml, .yml or .json file", path)
	}
	return names, err
}

// podName is where a pod is.
type podName struct{ namespace, name string }

// manifestObject is as much of an object as it takes to name its pods.
type manifestObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items []manifestObject `json:"items"`
}

// podNames lists the pods that a file names. Only the agent judges manifests;
// this is for taking them back.
func podNames(f manifestFile, namespace string) ([]podName, error) {
	var names []podName
	dec := yaml.NewYAMLOrJSONDecoder(strings.NewReader(f.text), 4096)
	for n := 1; ; n++ {
		var o manifestObject
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", f.name, n, err)
		}
		found, err := o.pods(namespace)
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", f.name, n, err)
		}
		names = append(names, found...)
	}
}

func (o manifestObject) pods(namespace string) ([]podName, error) {
	switch o.Kind {
	case "": // nothing but comments
		return nil, nil
	case "Pod":
		if o.Metadata.Name == "" {
			return nil, errors.New("metadata.name is missing")
		}
		return []podName{{namespace: cmp.Or(o.Metadata.Namespace, namespace), name: o.Metadata.Name}}, nil
	case "List", "PodList":
		var names []podName
		for _, item := range o.Items {
			item.Kind = cmp.Or(item.Kind, "Pod") // items of a PodList may leave it out
			found, err := item.pods(namespace)
			if err != nil {
				return nil, err
			}
			names = append(names, found...)
		}
		return names, nil
	default:
		return nil, fmt.Errorf("kind %s is not supported yet, only Pod, PodList and List", o.Kind)
	}
}
