package control

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/policy"
	"mcpx/internal/store"
)

// KnownCredentials are the names of all credentials.
func KnownCredentials(ctx context.Context, r catalog.CredentialReader) (map[string]bool, error) {
	all, err := catalog.AllCredentials(ctx, r)
	known := make(map[string]bool, len(all))
	for _, one := range all {
		known[one.Name] = true
	}
	return known, err
}

// namesKnown fails when an entry takes a value from a credential that does not exist: its start could only fail.
func namesKnown(ctx context.Context, r catalog.CredentialReader, s catalog.Server) error {
	for _, name := range s.Credentials() {
		_, err := r.CredentialByName(ctx, catalog.CredentialByName{Name: name})
		if fault.KindOf(err) == fault.NotFound {
			names, listErr := KnownCredentials(ctx, r)
			if listErr != nil {
				return listErr
			}
			return noCredential(name, slices.Sorted(maps.Keys(names)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BindCredentials lets variables and headers of a server take their values from credentials.
func (c *Control) BindCredentials(ctx context.Context, in api.BindCredentials) (api.Server, error) {
	if err := c.allow(ctx, "credential.bind"); err != nil {
		return api.Server{}, err
	}
	edit := api.EditServer{Name: in.Server, Env: map[string]*catalog.Binding{}, Headers: map[string]*catalog.Binding{}}
	for _, group := range []struct {
		texts map[string]string
		into  map[string]*catalog.Binding
	}{{in.Variables, edit.Env}, {in.Headers, edit.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(group.texts)) {
			b, err := boundTo(group.texts[name])
			if err != nil {
				return api.Server{}, err
			}
			group.into[name] = &b
		}
	}
	if len(edit.Env)+len(edit.Headers) == 0 {
		return api.Server{}, fault.New(fault.Invalid, "request-invalid").Saying("nothing to bind was given").Hinting("for example VAR=NAME")
	}
	var name string
	var effect *api.EditEffect
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		old, err := c.find(ctx, tx, in.Server)
		if err != nil {
			return err
		}
		if err := c.inFile(old); err != nil {
			return err
		}
		name = old.Name
		changed, err := edited(old, edit)
		if err != nil {
			return err
		}
		changed.Updated = c.cfg.Now()
		if err := valid(changed); err != nil {
			return err
		}
		if effect, err = c.putEdited(ctx, tx, old, changed); err != nil {
			return err
		}
		body := map[string][]string{"variables": slices.Sorted(maps.Keys(in.Variables)), "headers": slices.Sorted(maps.Keys(in.Headers))}
		for _, credential := range changed.Credentials() {
			if slices.Contains(old.Credentials(), credential) {
				continue
			}
			refs := event.Refs{event.RefCredential: credential, event.RefServer: changed.ID}
			if err := c.tell(ctx, tx, event.CredentialBound, refs, changed.Name+" takes a value from the credential "+credential, body); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return api.Server{}, err
	}
	s, err := c.after(ctx, name)
	s.Effect = effect
	return s, err
}

var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxGranted bounds the projects and the programs of a grant.
const maxGranted = 100

// GrantCredential says which commands of agents may be given a credential.
func (c *Control) GrantCredential(ctx context.Context, in api.GrantCredential) (api.Credential, error) {
	if err := c.allow(ctx, "credential.grant"); err != nil {
		return api.Credential{}, err
	}
	if err := grantable(&in); err != nil {
		return api.Credential{}, err
	}
	c.keeping.Lock()
	defer c.keeping.Unlock()
	if _, err := c.credential(ctx, in.Name); err != nil {
		return api.Credential{}, err
	}
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		now, err := tx.CredentialByName(ctx, catalog.CredentialByName{Name: in.Name})
		if err != nil {
			return err
		}
		was := now.Commands
		now.Commands = catalog.Grant{}
		names := []string{}
		for _, name := range in.Projects {
			p, err := registered(ctx, tx, name)
			if err != nil {
				return err
			}
			if !slices.Contains(now.Commands.Projects, p.ID) {
				now.Commands.Projects, names = append(now.Commands.Projects, p.ID), append(names, p.Name)
			}
		}
		if len(names) > 0 {
			now.Commands.Programs, now.Commands.Variable = in.Programs, in.Variable
		}
		if reflect.DeepEqual(was, now.Commands) {
			return nil
		}
		if err := tx.PutCredential(ctx, catalog.PutCredential{Credential: now}); err != nil {
			return err
		}
		text := "no command may be given the credential " + now.Name
		if len(names) > 0 {
			text = "commands of " + strings.Join(names, ", ") + " may be given the credential " + now.Name
		}
		return c.tell(ctx, tx, event.CredentialGranted, event.Refs{event.RefCredential: now.Name}, text, now.Commands)
	})
	if err != nil {
		return api.Credential{}, err
	}
	view, err := c.credential(ctx, in.Name)
	view.Operation = api.OperationOf(ctx)
	return view, err
}

// grantable says what is wrong with a grant, and fills in the variable.
func grantable(in *api.GrantCredential) error {
	e := fault.New(fault.Invalid, "credential-grant").Retrying(fault.AfterFix)
	if len(in.Projects) > maxGranted || len(in.Programs) > maxGranted {
		return e.Saying("a grant names at most %d projects and %d programs", maxGranted, maxGranted).Hinting("leave the programs out to let a person or a rule decide")
	}
	for _, program := range in.Programs {
		if !policy.ValidProgram(program) {
			return e.Saying("%q is neither the name of a program nor a clean absolute path", program).Hinting("for example gh, or /opt/deploy/bin/deploy")
		}
	}
	made := in.Variable == ""
	if made {
		in.Variable = catalog.Variable(in.Name)
	}
	if !variableName().MatchString(in.Variable) {
		e = e.Hinting("give the variable a name such as GITHUB_TOKEN")
		if made {
			return e.Saying("no variable can be named after the credential %s", in.Name)
		}
		return e.Saying("%q is no name of a variable", in.Variable)
	}
	return nil
}

// boundTo is the binding for the name of a credential, or for a text with {NAME} in it.
func boundTo(text string) (catalog.Binding, error) {
	if !strings.Contains(text, "{") {
		if err := catalog.ValidCredentialName(text); err != nil {
			return catalog.Binding{}, err
		}
		return catalog.Binding{Ref: catalog.CredentialRef(text)}, nil
	}
	var out strings.Builder
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		out.WriteString(before)
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return catalog.Binding{}, fault.New(fault.Invalid, "usage").Saying("a { is not closed").Hinting(`for example "Bearer {github-token}"`)
		}
		if !strings.Contains(name, ":") { // else it is a reference, which may stand there, too
			if err := catalog.ValidCredentialName(name); err != nil {
				return catalog.Binding{}, err
			}
			name = catalog.CredentialRef(name)
		}
		out.WriteString("{" + name + "}")
		rest = tail
	}
	return catalog.Binding{Template: out.String()}, nil
}
