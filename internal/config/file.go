package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
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
	doc, err := readDocument(file)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	kubeletConfig, err := doc.decode()
	if err != nil {
		return err
	}
	var wrong []error
	var idle []string
	for _, field := range doc.set() {
		take, known := takers[field]
		if !known {
			idle = append(idle, field)
			continue
		}
		flag := flagOf(field)
		if p.flags.Changed(flag) || flag == "v" && p.flags.Changed("log-level") {
			continue
		}
		p.origin[flag] = doc.place(field)
		if err := take(&p.config, kubeletConfig); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", doc.place(field), err))
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
