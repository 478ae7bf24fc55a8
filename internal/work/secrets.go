package work

import (
	"context"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/process"
	"mcpx/internal/secret"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Secrets finds the values behind credentials; *secret.Resolver does. A secret of the tools is a credential that a person
// has granted to commands.
type Secrets interface {
	// Resolve gives the value of a reference as it is now.
	Resolve(ctx context.Context, ref string) (secret.Handle, error)
	// Check says why a reference would give no value now, or nil.
	Check(ctx context.Context, ref string) error
	// Quiet says whether a reference can be resolved without running a program, which may ask a person who expects nothing.
	Quiet(ctx context.Context, ref string) (bool, error)
}

// The codes of secrets.
const (
	secretUnknown     = operation.Code("SECRET_UNKNOWN")
	secretUnavailable = operation.Code("SECRET_UNAVAILABLE")
)

// maxSecrets bounds the secrets of one command.
const maxSecrets = 20

// grantedSecret is a secret that commands may be given, as agents see it.
type grantedSecret struct {
	Name      string
	Variable  string // in which a command gets it
	Readiness catalog.Readiness
}

// secretsOf lists the secrets that the commands of a project may be given, or of any project, by name, and whether there is a
// value now. What could ask a person is not looked at: then it is what the last check found.
func (s *Service) secretsOf(ctx context.Context, project string) ([]grantedSecret, error) {
	out := []grantedSecret{}
	if s.cfg.Secrets == nil {
		return out, nil
	}
	var all []catalog.Credential
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		all, err = catalog.AllCredentials(ctx, r)
		return err
	})
	for _, c := range all {
		if c.Commands.IsZero() || project != "" && !slices.Contains(c.Commands.Projects, project) {
			continue
		}
		if ref := catalog.CredentialRef(c.Name); s.quiet(ctx, ref) {
			c.Readiness = secret.ReadinessOf(s.cfg.Secrets.Check(ctx, ref))
		}
		out = append(out, grantedSecret{c.Name, c.Commands.Variable, c.Readiness})
	}
	return out, err
}

func (s *Service) quiet(ctx context.Context, ref string) bool {
	quiet, err := s.cfg.Secrets.Quiet(ctx, ref)
	return err == nil && quiet
}

// granted finds the secrets that a command of a project asks for, and refuses what it may not be given.
func (s *Service) granted(ctx context.Context, p session.Project, names []string) ([]catalog.Credential, error) {
	var all []catalog.Credential
	for _, name := range names {
		c, err := s.credential(ctx, name)
		switch {
		case fault.KindOf(err) == fault.NotFound || err == nil && c.Commands.IsZero():
			return nil, operation.Refuse(secretUnknown, "there is no secret %.64q for commands", name).Retrying(fault.AfterFix).With("secret", name)
		case err != nil:
			return nil, err
		case !slices.Contains(c.Commands.Projects, p.ID):
			return nil, operation.Refuse(policyDenied, "the secret %s is not for commands of the project %s; a person can run `mcpx credential grant`", name, p.Name).
				Retrying(fault.Never).With("secret", name).With("project", p.Name)
		}
		all = append(all, c)
	}
	return all, nil
}

func (s *Service) credential(ctx context.Context, name string) (c catalog.Credential, err error) {
	if s.cfg.Secrets == nil {
		return c, catalog.CredentialUnknown(name)
	}
	err = s.cfg.DB.View(ctx, func(r store.Reader) error {
		c, err = r.CredentialByName(ctx, catalog.CredentialByName{Name: name})
		return err
	})
	return c, err
}

// receivers are the programs that secrets are for, by their names.
func receivers(all []catalog.Credential) map[string][]string {
	programs := map[string][]string{}
	for _, c := range all {
		if len(c.Commands.Programs) > 0 {
			programs[c.Name] = c.Commands.Programs
		}
	}
	return programs
}

// ready refuses a command whose secrets have no values, or no place of their own, before anybody is asked about it. The call
// sets the variables that are taken.
func (s *Service) ready(ctx context.Context, all []catalog.Credential, taken []string) error {
	by := map[string]string{}
	for _, c := range all {
		variable := c.Commands.Variable
		if slices.Contains(taken, variable) || by[variable] != "" {
			return operation.Refuse(operation.ArgumentInvalid, "the secret %s comes in the variable %s, which the call sets otherwise, too", c.Name, variable)
		}
		by[variable] = c.Name
		if ref := catalog.CredentialRef(c.Name); s.quiet(ctx, ref) {
			if err := s.cfg.Secrets.Check(ctx, ref); err != nil {
				return valueless(c.Name, err)
			}
		}
	}
	return nil
}

// valueless is the refusal of a secret without a value. It names the secret and nothing of the place where the value would be.
func valueless(name string, why error) *operation.Refusal {
	readiness := secret.ReadinessOf(why)
	return operation.Refuse(secretUnavailable, "the secret %s has no value now (%s); a person can run `mcpx credential check %s`", name, readiness, name).
		Retrying(fault.AfterFix).With("secret", name).With("readiness", readiness)
}

// lend resolves the secrets of a job that is about to start, and writes down that it gets them. The values are by name.
func (q *jobs) lend(ctx context.Context, l *live, c *Command) (map[string]string, error) {
	j := l.get()
	if len(j.Command.Secrets) == 0 {
		return nil, nil
	}
	x, err := q.s.ofProject(ctx, j.Project)
	if err != nil {
		return nil, err
	}
	defer x.close()
	all, err := q.s.granted(ctx, x.Project, j.Command.Secrets) // it may have been taken back since the command was judged
	if err != nil {
		return nil, err
	}
	values, variables := map[string]string{}, []string{}
	for _, one := range all {
		value, err := q.s.cfg.Secrets.Resolve(ctx, catalog.CredentialRef(one.Name))
		if err != nil {
			return nil, valueless(one.Name, err)
		}
		values[one.Name] = value.Reveal()
		variables = append(variables, one.Commands.Variable+"="+value.Reveal())
	}
	c.Environ = process.Environ(nil, slices.Concat(c.Environ, variables))
	return values, q.s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		names := slices.Sorted(maps.Keys(values))
		return q.s.tellJob(ctx, tx, j, l.actor, event.SecretUsed, "a command gets "+strings.Join(names, ", "), map[string][]string{"secrets": names})
	})
}
