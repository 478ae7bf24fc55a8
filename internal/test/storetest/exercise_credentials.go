package storetest

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// credentialCases has one case for each method of the port of credentials.
var credentialCases = map[string]func(*testing.T, Pair){
	"Credentials":      credentials,
	"CredentialByName": credentialByName,
	"PutCredential":    putCredential,
	"DeleteCredential": deleteCredential,
}

func credential(name string) catalog.Credential {
	return catalog.Credential{
		Name: name, Ref: "file:/ü<&>#K", Account: "ada", Readiness: catalog.ReadinessLocked,
		Commands: catalog.Grant{Projects: []string{"proj_1", "proj_2"}, Programs: []string{"gh"}, Variable: "TOKEN"},
		Expires:  uneven.Add(time.Hour), CheckedAt: uneven, Created: uneven.Add(-time.Hour), Updated: uneven,
	}
}

func storedCredential(c catalog.Credential) catalog.Credential {
	c.Expires, c.CheckedAt = store.CutTime(c.Expires), store.CutTime(c.CheckedAt)
	c.Created, c.Updated = store.CutTime(c.Created), store.CutTime(c.Updated)
	return c
}

func putCredentials(t *testing.T, p Pair, all ...catalog.Credential) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, c := range all {
			if err := tx.PutCredential(t.Context(), catalog.PutCredential{Credential: c}); err != nil {
				return err
			}
		}
		return nil
	})
}

func credentialNames(t *testing.T, p Pair, l catalog.ListCredentials) (names []string) {
	t.Helper()
	for _, c := range read(t, p.Read, func(r store.Reader) ([]catalog.Credential, error) { return r.Credentials(t.Context(), l) }) {
		names = append(names, c.Name)
	}
	return names
}

func credentials(t *testing.T, p Pair) {
	putCredentials(t, p, credential("c"), credential("a"), credential("b"))
	same(t, "all", []string{"a", "b", "c"}, credentialNames(t, p, catalog.ListCredentials{}))
	same(t, "first", []string{"a"}, credentialNames(t, p, catalog.ListCredentials{Limit: 1}))
	putCredentials(t, p, credential("0"), credential("bb")) // a page that was read stays where it is
	same(t, "after", []string{"b", "bb", "c"}, credentialNames(t, p, catalog.ListCredentials{After: "a"}))
	var many []catalog.Credential
	for i := range catalog.MaxCredentialPage + 2 {
		many = append(many, credential(fmt.Sprintf("x%04d", i)))
	}
	putCredentials(t, p, many...)
	if n := len(credentialNames(t, p, catalog.ListCredentials{Limit: 1 << 30})); n != catalog.MaxCredentialPage {
		t.Errorf("a page holds %d credentials, want at most %d", n, catalog.MaxCredentialPage)
	}
	all := read(t, p.Read, func(r store.Reader) ([]catalog.Credential, error) { return catalog.AllCredentials(t.Context(), r) })
	if len(all) != len(many)+5 {
		t.Errorf("AllCredentials gives %d, want %d", len(all), len(many)+5)
	}
}

func credentialNamed(t *testing.T, p Pair, name string) (c catalog.Credential, err error) {
	t.Helper()
	err = p.Read.View(t.Context(), func(r store.Reader) error {
		c, err = r.CredentialByName(t.Context(), catalog.CredentialByName{Name: name})
		return err
	})
	return c, err
}

func credentialByName(t *testing.T, p Pair) {
	putCredentials(t, p, credential("ab"))
	for _, name := range []string{"", "a", "abc", "AB"} {
		_, err := credentialNamed(t, p, name)
		wantFault(t, err, fault.NotFound, "credential-unknown")
	}
	if c, err := credentialNamed(t, p, "ab"); err != nil || c.Name != "ab" {
		t.Errorf("ab: %+v, %v", c, err)
	}
}

func putCredential(t *testing.T, p Pair) {
	want := credential("a")
	putCredentials(t, p, want)
	got, err := credentialNamed(t, p, "a")
	if err != nil {
		t.Error(err)
	}
	same(t, "first put", storedCredential(want), got)
	want = catalog.Credential{Name: "a", Ref: "store:a", Readiness: catalog.ReadinessUnchecked}
	putCredentials(t, p, want)
	if got, err = credentialNamed(t, p, "a"); err != nil {
		t.Error(err)
	}
	same(t, "second put", want, got)
}

func deleteCredential(t *testing.T, p Pair) {
	putCredentials(t, p, credential("a"), credential("b"))
	remove := func(name string) error {
		return p.Write.Change(t.Context(), func(tx store.Tx) error {
			return tx.DeleteCredential(t.Context(), catalog.DeleteCredential{Name: name})
		})
	}
	if err := remove("a"); err != nil {
		t.Error(err)
	}
	same(t, "what is left", []string{"b"}, credentialNames(t, p, catalog.ListCredentials{}))
	wantFault(t, remove("a"), fault.NotFound, "credential-unknown")
}
