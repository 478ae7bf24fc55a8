package storetest

import (
	"context"
	"maps"
	"slices"

	"mcpx/internal/auth"
	"mcpx/internal/store"
)

// admission is the access of clients over OAuth.
type admission struct {
	delegations      map[string]auth.Delegation      // by id
	delegationTokens map[string]auth.DelegationToken // by digest
	reached          auth.Remote
}

func newAdmission() admission {
	return admission{map[string]auth.Delegation{}, map[string]auth.DelegationToken{}, auth.Remote{}}
}

func (a admission) clone() admission {
	return admission{maps.Clone(a.delegations), maps.Clone(a.delegationTokens), a.reached}
}

func (a *admission) Delegations(_ context.Context, p auth.ListDelegations) ([]auth.Delegation, error) {
	all := slices.DeleteFunc(sortedValues(a.delegations), func(d auth.Delegation) bool { return d.ID <= p.After })
	return twins(all[:min(len(all), p.PageLimit())])
}

func (a *admission) DelegationByID(_ context.Context, p auth.DelegationByID) (auth.Delegation, error) {
	return find(a.delegations, p.ID, auth.UnknownDelegation, auth.AmbiguousDelegation)
}

func (a *admission) PutDelegation(_ context.Context, p auth.PutDelegation) error {
	d, err := twin(p.Delegation)
	d.Made, d.Refreshed, d.Expires, d.Revoked = store.CutTime(d.Made), store.CutTime(d.Refreshed), store.CutTime(d.Expires), store.CutTime(d.Revoked)
	a.delegations[d.ID] = d
	return err
}

func (a *admission) DelegationToken(_ context.Context, p auth.DelegationTokenByDigest) (*auth.DelegationToken, error) {
	if t, ok := a.delegationTokens[p.Digest]; ok {
		return &t, nil
	}
	return nil, nil
}

func (a *admission) PutDelegationToken(_ context.Context, p auth.PutDelegationToken) error {
	t := p.Token
	t.Made, t.Expires, t.Spent = store.CutTime(t.Made), store.CutTime(t.Expires), store.CutTime(t.Spent)
	a.delegationTokens[t.Digest] = t
	return nil
}

func (a *admission) DropDelegationTokens(_ context.Context, p auth.DropDelegationTokens) error {
	maps.DeleteFunc(a.delegationTokens, func(_ string, t auth.DelegationToken) bool { return t.Expires.Before(p.Before) })
	return nil
}

func (a *admission) Remote(context.Context) (auth.Remote, error) { return a.reached, nil }

func (a *admission) PutRemote(_ context.Context, p auth.PutRemote) error {
	a.reached = p.Remote
	return nil
}
