package storetest

import (
	"context"
	"slices"

	"mcpx/internal/catalog"
	"mcpx/internal/store"
)

func (s *state) Credentials(_ context.Context, p catalog.ListCredentials) ([]catalog.Credential, error) {
	all := slices.DeleteFunc(sortedValues(s.credentials), func(c catalog.Credential) bool { return c.Name <= p.After })
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) CredentialByName(_ context.Context, p catalog.CredentialByName) (catalog.Credential, error) {
	c, ok := s.credentials[p.Name]
	if !ok {
		return catalog.Credential{}, catalog.CredentialUnknown(p.Name)
	}
	return c, nil
}

func (s *state) PutCredential(_ context.Context, p catalog.PutCredential) error {
	c := p.Credential
	c.Expires, c.CheckedAt = store.CutTime(c.Expires), store.CutTime(c.CheckedAt)
	c.Created, c.Updated = store.CutTime(c.Created), store.CutTime(c.Updated)
	s.credentials[c.Name] = c
	return nil
}

func (s *state) DeleteCredential(_ context.Context, p catalog.DeleteCredential) error {
	if _, ok := s.credentials[p.Name]; !ok {
		return catalog.CredentialUnknown(p.Name)
	}
	delete(s.credentials, p.Name)
	return nil
}
