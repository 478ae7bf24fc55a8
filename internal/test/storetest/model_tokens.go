package storetest

import (
	"context"
	"slices"

	"mcpx/internal/auth"
	"mcpx/internal/store"
)

func (s *state) Tokens(_ context.Context, p auth.ListTokens) ([]auth.Token, error) {
	all := slices.DeleteFunc(sortedValues(s.tokens), func(t auth.Token) bool { return t.ID <= p.After || p.Agent != "" && t.Agent != p.Agent })
	return twins(all[:min(len(all), p.PageLimit())])
}

func (s *state) TokenByID(_ context.Context, p auth.TokenByID) (auth.Token, error) {
	return find(s.tokens, p.ID, auth.Unknown, auth.Ambiguous)
}

func (s *state) PutToken(_ context.Context, p auth.PutToken) error {
	for id, t := range s.tokens {
		if t.Digest == p.Token.Digest && id != p.Token.ID {
			return auth.Taken(p.Token.ID)
		}
	}
	t, err := twin(p.Token)
	if err != nil {
		return err
	}
	t.Created, t.Used, t.Expires, t.Revoked = store.CutTime(t.Created), store.CutTime(t.Used), store.CutTime(t.Expires), store.CutTime(t.Revoked)
	s.tokens[t.ID] = t
	return nil
}
