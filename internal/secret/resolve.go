package secret

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

const (
	// maxValue bounds a value: the largest real ones are certificates of a few KiB.
	maxValue = 64 << 10
	// commandTime bounds a command. A password manager that asks a person takes longer, and has nobody to ask here.
	commandTime = 10 * time.Second
)

// Runner runs a program for its output. Implemented over package process by the daemon.
type Runner interface {
	// Output runs argv without a shell, with nothing on stdin, until it ends, and gives its stdout. It fails when the
	// program fails, when stdout has more than limit bytes, or when ctx ends; the error holds neither arguments nor
	// output.
	Output(ctx context.Context, argv []string, limit int) ([]byte, error)
}

// Config is what a Resolver needs.
type Config struct {
	Lookup   func(name string) (string, bool) // variables of the daemon; os.LookupEnv in the product
	Home     string                           // what ~ stands for
	Runner   Runner                           // for command: references
	Redactor *Redactor                        // learns every value that is resolved
}

// Resolver gives the values behind references. It keeps none: each call looks again, so a changed file or variable
// counts at the next start of a backend.
type Resolver struct{ cfg Config }

// New makes a Resolver.
func New(c Config) (*Resolver, error) {
	switch {
	case c.Lookup == nil:
		return nil, errors.New("secret: Config.Lookup is required")
	case !path.IsAbs(c.Home):
		return nil, fmt.Errorf("secret: Config.Home is %q, want an absolute path", c.Home)
	case c.Runner == nil:
		return nil, errors.New("secret: Config.Runner is required")
	case c.Redactor == nil:
		return nil, errors.New("secret: Config.Redactor is required")
	}
	return &Resolver{cfg: c}, nil
}

// Resolve gives the value behind one reference.
func (r *Resolver) Resolve(ctx context.Context, ref string) (Handle, error) {
	parsed, err := ParseRef(ref)
	if err != nil {
		return Handle{}, err
	}
	value, err := r.value(ctx, parsed)
	if err != nil {
		return Handle{}, err
	}
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return Handle{}, fault.New(fault.Invalid, "credential-invalid").
			Saying("the value of %s holds bytes that no variable or header can carry", parsed).Hinting("store it as text")
	}
	r.cfg.Redactor.Add(parsed.label(), value)
	return Hold(value), nil
}

// label is a short name for the marker in redacted text.
func (r Ref) label() string {
	switch r.Kind {
	case Env:
		return r.Name
	case File:
		if r.Key != "" {
			return path.Base(r.Key)
		}
		return path.Base(r.Path)
	case Command:
		return path.Base(r.Argv[0])
	}
	return ""
}

func (r *Resolver) value(ctx context.Context, ref Ref) (string, error) {
	switch ref.Kind {
	case Env:
		v, ok := r.cfg.Lookup(ref.Name)
		if !ok || v == "" {
			return "", missing("the variable %s is not set for the daemon", ref.Name).
				Hinting("set it and run `mcpx daemon restart --env` from that shell")
		}
		return v, nil
	case File:
		file := ref.Path
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			file = path.Join(r.cfg.Home, rest)
		}
		return readFile(file, ref.Key)
	case Command:
		return r.run(ctx, ref)
	}
	return "", badRef("it has no kind").Hinting("write it as KIND:WHERE")
}

func missing(format string, args ...any) *fault.Error {
	return fault.New(fault.Unavailable, "credential-missing").Saying(format, args...).Retrying(fault.AfterFix)
}

func (r *Resolver) run(ctx context.Context, ref Ref) (string, error) {
	ctx, stop := context.WithTimeout(ctx, commandTime)
	defer stop()
	out, err := r.cfg.Runner.Output(ctx, ref.Argv, maxValue)
	if err != nil {
		e := fault.New(fault.Unavailable, "credential-unavailable").Retrying(fault.AfterFix).Because(err)
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return "", e.Saying("%s gave no value within %s", ref.Argv[0], commandTime).
				Hinting("run it by hand: it may be waiting for a password")
		}
		return "", e.Saying("%s gave no value", ref.Argv[0]).Hinting("run the command of the reference by hand to see why")
	}
	value := cutNewline(string(out))
	if value == "" {
		return "", missing("%s printed nothing", ref.Argv[0]).Hinting("run the command of the reference by hand to see why")
	}
	return value, nil
}

// cutNewline removes the one line end that programs and editors add.
func cutNewline(s string) string {
	if t, ok := strings.CutSuffix(s, "\r\n"); ok {
		return t
	}
	return strings.TrimSuffix(s, "\n")
}

// Learn makes the values of a process known that was started by an earlier daemon, so that its output can be redacted. It
// runs no command, which may ask a person who expects nothing. False: not all values are known.
func (r *Resolver) Learn(ctx context.Context, bindings map[string]catalog.Binding) bool {
	known := true
	for _, b := range bindings {
		refs, err := b.Refs()
		known = known && err == nil
		for _, ref := range refs {
			if parsed, err := ParseRef(ref); err != nil || parsed.Kind == Command {
				known = false
				continue
			}
			_, err := r.Resolve(ctx, ref)
			known = known && err == nil
		}
	}
	return known
}

// Bindings gives the values of a set of variables or headers. When some fail, the error of the first in the order of
// names is given, and its message names all of them; what is resolved is dropped.
func (r *Resolver) Bindings(ctx context.Context, bindings map[string]catalog.Binding) (map[string]Handle, error) {
	values := make(map[string]Handle, len(bindings))
	var failed []string
	var first *fault.Error
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		v, err := bindings[name].Value(func(ref string) (string, error) {
			h, err := r.Resolve(ctx, ref)
			return h.Reveal(), err
		})
		if err != nil {
			failed = append(failed, name)
			if first == nil {
				first = fault.From(err)
			}
			continue
		}
		values[name] = Hold(v)
	}
	if first != nil {
		return nil, fault.New(first.Kind, first.Code).
			Saying("no value for %s: %s", strings.Join(failed, ", "), first.Message).
			Hinting("%s", first.Hint).Retrying(first.Retry).Because(errors.Unwrap(first))
	}
	return values, nil
}
