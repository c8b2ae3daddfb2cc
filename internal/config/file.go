package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// takers set what a field of the file says, by the field's path. A frequency of
// zero is kubelet's way to ask for the default.
var takers = map[string]func(*Config, *kubelet.KubeletConfiguration) error{
	"staticPodPath": func(c *Config, k *kubelet.KubeletConfiguration) error {
		return (*path)(&c.PodManifestPath).Set(k.StaticPodPath)
	},
	"staticPodURL": func(c *Config, k *kubelet.KubeletConfiguration) error { c.ManifestURL = k.StaticPodURL; return nil },
	"staticPodURLHeader": func(c *Config, k *kubelet.KubeletConfiguration) error {
		c.ManifestURLHeader = k.StaticPodURLHeader
		return nil
	},
	"fileCheckFrequency": func(c *Config, k *kubelet.KubeletConfiguration) error {
		return setFrequency(&c.FileCheckFrequency, k.FileCheckFrequency)
	},
	"httpCheckFrequency": func(c *Config, k *kubelet.KubeletConfiguration) error {
		return setFrequency(&c.HTTPCheckFrequency, k.HTTPCheckFrequency)
	},
	"syncFrequency": func(c *Config, k *kubelet.KubeletConfiguration) error {
		return setFrequency(&c.SyncFrequency, k.SyncFrequency)
	},
	"maxParallelImagePulls": func(c *Config, k *kubelet.KubeletConfiguration) error {
		c.MaxParallelImagePulls = int(*k.MaxParallelImagePulls)
		return nil
	},
	"serializeImagePulls": takeSerializeImagePulls,
	"logging.verbosity": func(c *Config, k *kubelet.KubeletConfiguration) error {
		return (*verbosity)(&c.LogLevel).Set(strconv.FormatUint(uint64(k.Logging.Verbosity), 10))
	},
	"logging.format": func(c *Config, k *kubelet.KubeletConfiguration) error { c.LogFormat = k.Logging.Format; return nil },
}

func setFrequency(to *time.Duration, from metav1.Duration) error {
	if from.Duration != 0 {
		*to = from.Duration
	}
	return nil
}

// takeSerializeImagePulls takes true as one pull at a time. False leaves the
// number alone: no number at all would let one manifest fill the machine's link.
func takeSerializeImagePulls(c *Config, k *kubelet.KubeletConfiguration) error {
	if !*k.SerializeImagePulls {
		return nil
	}
	if k.MaxParallelImagePulls != nil && *k.MaxParallelImagePulls > 1 {
		return fmt.Errorf("true, but maxParallelImagePulls is %d: leave one of them out", *k.MaxParallelImagePulls)
	}
	c.MaxParallelImagePulls = 1
	return nil
}

// readFile takes a KubeletConfiguration. Fields that a flag sets as well are only
// checked for their syntax.
func (p *parser) readFile(file string) error {
	kubeletConfig, set, err := decodeFile(file)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var wrong []error
	var idle []string
	for _, field := range set {
		take, known := takers[field]
		if !known {
			idle = append(idle, field)
			continue
		}
		flag := flagOf(field)
		if p.flags.Changed(flag) || flag == "v" && p.flags.Changed("log-level") {
			continue
		}
		p.origin[flag] = file + ": " + field
		if err := take(&p.config, kubeletConfig); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %s: %w", file, field, err))
		}
	}
	if len(idle) > 0 {
		p.config.Warnings = append(p.config.Warnings, fmt.Sprintf("%s: these fields have no effect: %s", file, strings.Join(idle, ", ")))
	}
	return errors.Join(wrong...)
}

// flagOf is the flag that sets the same as a field of the file.
func flagOf(field string) string {
	for _, s := range settings() {
		if slices.Contains(s.fields, field) {
			return s.flag
		}
	}
	return ""
}

// decodeFile reads the file strictly. The paths of the fields that it sets come
// sorted.
func decodeFile(file string) (*kubelet.KubeletConfiguration, []string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	decoded := &kubelet.KubeletConfiguration{}
	strict, err := kjson.UnmarshalStrict(asJSON, decoded)
	switch want := kubelet.SchemeGroupVersion.String(); {
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	case decoded.APIVersion != want || decoded.Kind != "KubeletConfiguration":
		return nil, nil, fmt.Errorf("%s: apiVersion is %q and kind is %q: give %s and KubeletConfiguration", file, decoded.APIVersion, decoded.Kind, want)
	case len(strict) > 0:
		for i, err := range strict {
			strict[i] = fmt.Errorf("%s: %w", file, err)
		}
		return nil, nil, errors.Join(strict...)
	}
	set, err := setFields(asJSON)
	return decoded, set, err
}

// setFields lists the fields that a document sets, null not counting. Fields of
// logging are told apart, since some of them are known here.
func setFields(document []byte) ([]string, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, err
	}
	logging := map[string]json.RawMessage{}
	if nested, ok := fields["logging"]; ok {
		if err := json.Unmarshal(nested, &logging); err != nil {
			return nil, err
		}
		delete(fields, "logging")
	}
	for name, value := range logging {
		fields["logging."+name] = value
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return slices.Sorted(maps.Keys(fields)), nil
}
