package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// commentWidth is the width of the comments in configuration files.
const commentWidth = 88

// File is a KubeletConfiguration in which every field that the agent takes stands
// with its default, commented out by a # with no blank behind it. Other comments
// have one.
func File() string {
	var b strings.Builder
	b.WriteString(comment("Configuration of podsteadd, see podsteadd(8). To change a setting, remove the # "+
		"before it. What has no field here is set in podsteadd.env. `systemctl restart podsteadd` "+
		"puts changes into effect and leaves pods running.", "# "))
	fmt.Fprintf(&b, "apiVersion: %s\nkind: KubeletConfiguration\n", kubelet.SchemeGroupVersion)
	defaults := Default()
	var logging []string
	for _, s := range settings() {
		for i, field := range s.fields {
			standard := fileDefault(field, s.value(&defaults))
			if inner, nested := strings.CutPrefix(field, "logging."); nested {
				logging = append(logging, inner+": "+standard)
				continue
			}
			if i == 0 {
				b.WriteString("\n" + comment(s.fileUsage(), "# "))
			}
			fmt.Fprintf(&b, "#%s: %s\n", field, standard)
		}
	}
	fmt.Fprintf(&b, "\n# format: text or json. verbosity: 4 and more is debug, less is info.\n#logging: {%s}\n", strings.Join(logging, ", "))
	return b.String()
}

// fileDefault is the default of a field as YAML.
func fileDefault(field string, value pflag.Value) string {
	switch field {
	case "staticPodURLHeader":
		return "{}"
	case "serializeImagePulls":
		return "false"
	case "logging.verbosity":
		return "0"
	}
	if s := value.String(); s != "" {
		return s
	}
	return `""`
}

// fileUsage says what the setting's field means, naming fields where the help text
// names flags.
func (s setting) fileUsage() string {
	if s.inFile != "" {
		return s.inFile
	}
	usage := s.usage
	for _, other := range settings() {
		if len(other.fields) > 0 {
			usage = strings.ReplaceAll(usage, "--"+other.flag, other.fields[0])
		}
	}
	return usage
}

// FlagsFile is a file of environment variables, as systemd reads it, with the
// flags that have no field in the configuration file in the variable
// PODSTEADD_FLAGS: all of them with their defaults, commented out as in [File].
// socketGroup is the default that the service has for --socket-group.
func FlagsFile(socketGroup string) string {
	defaults := Default()
	defaults.SocketGroup = socketGroup
	var b strings.Builder
	b.WriteString(comment("Environment of podsteadd.service: flags that have no field in config.yaml, and "+
		"the variables of podsteadd(8). To change something, remove the # before it.", "# "))
	var flags []string
	for _, s := range settings() {
		if len(s.fields) > 0 {
			continue
		}
		fmt.Fprintf(&b, "#\n# --%s %s\n%s", s.flag, s.argument, comment(s.usage, "#     "))
		flags = append(flags, "--"+s.flag+"="+s.value(&defaults).String())
	}
	fmt.Fprintf(&b, "\n#PODSTEADD_FLAGS=\"%s\"\n", strings.Join(flags, " "))
	b.WriteString("\n# A proxy for image registries and --manifest-url, for the agent and for its Podman:\n")
	b.WriteString("#HTTPS_PROXY=\n#NO_PROXY=\n")
	return b.String()
}

// comment breaks a text into lines that each begin with the prefix.
func comment(text, prefix string) string {
	var b strings.Builder
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(prefix+line+" "+word) > commentWidth {
			b.WriteString(prefix + line + "\n")
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return b.String() + prefix + line + "\n"
}
