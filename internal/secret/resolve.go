package secret

import (
	"context"
	"crypto/subtle"
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
	Redactor *Redactor                        // learns every value that is resolved or stored
	Ring     *Ring                            // for keyring: references
	Vault    *Vault                           // for store: references
	// Credential finds the record of a cred: reference.
	Credential func(ctx context.Context, name string) (catalog.Credential, error)
	Now        func() time.Time
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
	case c.Ring == nil || c.Vault == nil || c.Credential == nil || c.Now == nil:
		return nil, errors.New("secret: Config.Ring, Config.Vault, Config.Credential and Config.Now are required")
	}
	return &Resolver{cfg: c}, nil
}

// Resolve gives the value behind one reference.
func (r *Resolver) Resolve(ctx context.Context, ref string) (Handle, error) {
	parsed, err := ParseRef(ref)
	if err != nil {
		return Handle{}, err
	}
	if parsed.Kind == Named {
		return r.named(ctx, parsed.Name)
	}
	value, err := r.value(ctx, parsed)
	if err != nil {
		return Handle{}, err
	}
	return r.hold(parsed, parsed.label(), value)
}

// named gives the value of a credential.
func (r *Resolver) named(ctx context.Context, name string) (Handle, error) {
	c, ref, err := r.record(ctx, name)
	if err != nil {
		return Handle{}, err
	}
	if !c.Expires.IsZero() && !r.cfg.Now().Before(c.Expires) {
		return Handle{}, fault.New(fault.Unavailable, "credential-expired").Saying("the credential %s ended on %s", name, c.Expires.Format(time.DateOnly)).
			Hinting("give it a new value with `mcpx credential rotate %s`", name).Retrying(fault.AfterFix)
	}
	value, err := r.value(ctx, ref)
	if err != nil {
		e := fault.From(err)
		return Handle{}, e.Saying("the credential %s: %s", name, e.Message)
	}
	return r.hold(ref, name, value)
}

// record finds a credential and what it refers to, which is never another credential.
func (r *Resolver) record(ctx context.Context, name string) (catalog.Credential, Ref, error) {
	c, err := r.cfg.Credential(ctx, name)
	if err != nil && fault.From(err).Code == "credential-unknown" {
		err = missing("there is no credential %s", name).Hinting("make it with `mcpx credential set %s`", name)
	}
	if err != nil {
		return c, Ref{}, err
	}
	ref, err := ParseRef(c.Ref)
	return c, ref, err
}

// hold makes a value known to the redactor, if a variable or a header can carry it.
func (r *Resolver) hold(parsed Ref, label, value string) (Handle, error) {
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return Handle{}, fault.New(fault.Invalid, "credential-invalid").
			Saying("the value of %s holds bytes that no variable or header can carry", parsed).Hinting("store it as text")
	}
	r.cfg.Redactor.Add(label, value)
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
	case Keyring:
		return r.Service
	case Store, Named:
		return r.Name
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
	case Keyring:
		value, err := r.cfg.Ring.get(ctx, ref.Service, ref.Account)
		if err == nil && value == "" {
			err = missing("the item of the keyring for service %q and account %q is empty", ref.Service, ref.Account).Hinting("store the value in it")
		}
		return value, err
	case Store:
		return r.cfg.Vault.get(ctx, ref.Name)
	case Named: // a record holds no such reference
		return "", badRef("a credential cannot refer to another one").Hinting("give it the reference of the other one")
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

// Quiet says whether a reference can be resolved without running a program, which may ask a person who expects nothing.
func (r *Resolver) Quiet(ctx context.Context, ref string) (bool, error) {
	parsed, err := ParseRef(ref)
	if err == nil && parsed.Kind == Named {
		_, parsed, err = r.record(ctx, parsed.Name)
	}
	return parsed.Kind != Command, err
}

// Check says why a reference would give no value now, or nil. It takes the way of Resolve and drops the value.
func (r *Resolver) Check(ctx context.Context, ref string) error {
	_, err := r.Resolve(ctx, ref)
	return err
}

// Keep stores a value under the name of a credential. Changed is false when it was there already.
func (r *Resolver) Keep(ctx context.Context, name string, value Handle) (changed bool, err error) {
	v := value.Reveal()
	switch {
	case v == "":
		return false, fault.New(fault.Invalid, "credential-empty").Saying("the value is empty").Hinting("give it on stdin, or type it when asked")
	case len(v) > maxValue:
		return false, fault.New(fault.Invalid, "credential-invalid").Saying("the value has %d bytes, at most %d are allowed", len(v), maxValue).
			Hinting("keep it in a file of its own, and refer to it with file:PATH")
	}
	if _, err := r.hold(Ref{Kind: Store, Name: name}, name, v); err != nil { // before anything else may tell it
		return false, err
	}
	return r.cfg.Vault.put(ctx, name, v)
}

// Holds says whether a value is the one that is stored under the name.
func (r *Resolver) Holds(ctx context.Context, name string, value Handle) (bool, error) {
	stored, err := r.cfg.Vault.get(ctx, name)
	return err == nil && subtle.ConstantTimeCompare([]byte(stored), []byte(value.Reveal())) == 1, err
}

// Forget removes a value from the store; what is not there is forgotten already. The redactor goes on to know it.
func (r *Resolver) Forget(ctx context.Context, name string) error {
	return r.cfg.Vault.remove(ctx, name)
}

// KeyPlace says where the key of the store is.
func (r *Resolver) KeyPlace() (KeyPlace, error) { return r.cfg.Vault.KeyPlace() }

// RingUsable says why the keyring cannot be used now, or nil.
func (r *Resolver) RingUsable(ctx context.Context) error { return r.cfg.Ring.usable(ctx) }

// ReadinessOf is the readiness that the outcome of Check says.
func ReadinessOf(err error) catalog.Readiness {
	if err == nil {
		return catalog.ReadinessReady
	}
	switch fault.From(err).Code {
	case "credential-missing", "credential-unknown":
		return catalog.ReadinessMissing
	case "credential-locked":
		return catalog.ReadinessLocked
	case "credential-permissions", "credential-denied":
		return catalog.ReadinessDenied
	case "credential-expired":
		return catalog.ReadinessExpired
	case "canceled":
		return catalog.ReadinessUnchecked
	}
	return catalog.ReadinessUnavailable
}

// Learn makes the values of a process known that was started by an earlier daemon, so that its output can be redacted. It
// runs no command, which may ask a person who expects nothing. False: not all values are known.
func (r *Resolver) Learn(ctx context.Context, bindings map[string]catalog.Binding) bool {
	known := true
	for _, b := range bindings {
		refs, err := b.Refs()
		known = known && err == nil
		for _, ref := range refs {
			quiet, err := r.Quiet(ctx, ref)
			if err != nil || !quiet {
				known = false
				continue
			}
			_, err = r.Resolve(ctx, ref)
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
