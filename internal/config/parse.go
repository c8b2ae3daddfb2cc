package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"podstead.io/podstead/internal/spelling"
)

// What Parse returns when something else than a configuration was asked for.
var (
	ErrHelp    = errors.New("help asked for")
	ErrVersion = errors.New("version asked for")
)

// Parse makes the configuration from the command line without the program's name.
// It returns ErrHelp for --help, ErrVersion for --version, and else an error with a
// line for everything that is wrong.
func Parse(args []string, getenv func(string) string) (Config, error) {
	p := newParser()
	if err := p.swallowed(args); err != nil {
		return Config{}, err
	}
	if err := p.flags.Parse(args); err != nil {
		return Config{}, explain(err)
	}
	switch {
	case p.help:
		return Config{}, ErrHelp
	case p.version:
		return Config{}, ErrVersion
	case p.flags.NArg() > 0:
		return Config{}, fmt.Errorf("%q: podsteadd takes no arguments; give manifests in a directory (--pod-manifest-path) or with `podstead apply -f`", p.flags.Arg(0))
	case p.flags.Changed("v") && p.flags.Changed("log-level"):
		return Config{}, errors.New("--v and --log-level: give one of them")
	}
	p.environment(getenv)
	if p.file != "" {
		if err := p.readFile(p.file); err != nil {
			return Config{}, err
		}
	}
	return p.finish()
}

// parser is one parse.
type parser struct {
	config  Config
	flags   *pflag.FlagSet
	file    string
	help    bool
	version bool
	// origin says where a setting that no flag set comes from, by flag.
	origin map[string]string
}

func newParser() *parser {
	p := &parser{config: Default(), origin: map[string]string{}}
	p.flags = pflag.NewFlagSet("podsteadd", pflag.ContinueOnError)
	p.flags.SortFlags = false
	p.flags.Usage = func() {} // the caller prints Usage
	for _, s := range settings() {
		usage := s.usage
		if s.variable != "" {
			usage += "; environment: " + s.variable
		}
		p.flags.VarP(argument{s.value(&p.config), s.argument}, s.flag, s.shorthand, usage)
	}
	p.flags.StringVar(&p.file, "config", "", "KubeletConfiguration (kubelet.config.k8s.io/v1beta1) in a `FILE`; flags win over it")
	p.flags.BoolVar(&p.version, "version", false, "print the version and exit")
	p.flags.BoolVarP(&p.help, "help", "h", false, "print this help and exit")
	return p
}

// environment takes the variables of settings that have one.
func (p *parser) environment(getenv func(string) string) {
	for _, s := range settings() {
		if s.variable == "" || p.flags.Changed(s.flag) {
			continue
		}
		if value := getenv(s.variable); value != "" {
			p.origin[s.flag] = s.variable
			_ = s.value(&p.config).Set(value) // a text or path takes anything
		}
	}
}

// finish checks everything and derives the rest.
func (p *parser) finish() (Config, error) {
	var wrong []error
	p.config.ManifestURLHeader = canonical(p.config.ManifestURLHeader)
	for _, s := range settings() {
		if s.check == nil {
			continue
		}
		if err := s.check(p.config); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", p.where(s.flag), err))
		}
	}
	if len(wrong) > 0 {
		return Config{}, errors.Join(wrong...)
	}
	p.config.SocketGID, _ = groupID(p.config.SocketGroup) // checked above
	return p.config, nil
}

// where names the place that a setting comes from.
func (p *parser) where(flag string) string {
	if origin := p.origin[flag]; origin != "" {
		return origin
	}
	return "--" + flag
}

// laterFlags are flags of kubelet that Podstead is going to have.
var laterFlags = []string{
	"eviction-hard", "eviction-soft", "max-pods", "node-labels", "node-status-update-frequency", "register-node",
}

// explain rewrites what pflag says.
func explain(err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return explainUnknown(unknown)
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: a value is missing", missing.GetFlag().Name)
	default:
		return err
	}
}

func explainUnknown(unknown *pflag.NotExistError) error {
	name := unknown.GetSpecifiedName()
	switch near := nearest(name); {
	case unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("-%s: there is no such flag; see podsteadd --help", name)
	case slices.Contains(laterFlags, name):
		return fmt.Errorf("--%s: this flag of kubelet is not supported yet; leave it out", name)
	case near != "":
		return fmt.Errorf("--%s: there is no such flag; did you mean --%s?", name, near)
	default:
		return fmt.Errorf("--%s: there is no such flag; see podsteadd --help", name)
	}
}

// swallowed finds a flag that would take the next flag for its value, as happens
// when a script leaves a variable empty that it does not quote.
func (p *parser) swallowed(args []string) error {
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		var f *pflag.Flag
		if name, long := strings.CutPrefix(args[i], "--"); long {
			f = p.flags.Lookup(name)
		} else if len(args[i]) == 2 && args[i][0] == '-' {
			f = p.flags.ShorthandLookup(args[i][1:])
		}
		if f == nil || f.NoOptDefVal != "" {
			continue // no flag, one with =, or one that needs no value
		}
		if strings.HasPrefix(args[i+1], "--") {
			return fmt.Errorf("%s: a value is missing, %q follows; for an empty one give %s=", args[i], args[i+1], args[i])
		}
		i++
	}
	return nil
}

// nearest is the flag that the name is most likely a slip of, empty if none.
func nearest(name string) string {
	var known []string
	newParser().flags.VisitAll(func(f *pflag.Flag) {
		if len(f.Name) > 1 {
			known = append(known, f.Name)
		}
	})
	return spelling.Nearest(name, known)
}
