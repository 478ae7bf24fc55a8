package auth

import (
	"context"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// Reader reads the records of tokens. It is part of the transaction port that package store joins.
type Reader interface {
	// Tokens is one page in order of id, which is the order of making. A page that is shorter than the limit is the last.
	Tokens(ctx context.Context, p ListTokens) ([]Token, error)
	// TokenByID finds one. NotFound token-id-unknown, Conflict token-id-ambiguous.
	TokenByID(ctx context.Context, p TokenByID) (Token, error)
}

// Store reads and changes them.
type Store interface {
	Reader
	// PutToken writes a record whole. Conflict token-taken when another record has its digest.
	PutToken(ctx context.Context, p PutToken) error
}

// MaxTokenPage bounds one page of Tokens: some 300 bytes each.
const MaxTokenPage = 500

// ListTokens asks for the tokens after After, of one agent or of all.
type ListTokens struct {
	Agent string // "" all
	After string // id of the last token of the page before
	Limit int    // 0 and everything above MaxTokenPage is MaxTokenPage
}

// PageLimit is the number of tokens that the page may hold.
func (p ListTokens) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxTokenPage {
		return MaxTokenPage
	}
	return p.Limit
}

// TokenByID names one token. A beginning of the id that only one token has is enough.
type TokenByID struct{ ID string }

// PutToken carries the record to write.
type PutToken struct{ Token Token }

// AllTokens reads every record that fits, page by page, in order.
func AllTokens(ctx context.Context, r Reader, agent string) ([]Token, error) {
	list := ListTokens{Agent: agent}
	return page.All(list.PageLimit(), func(last *Token) ([]Token, error) {
		if last != nil {
			list.After = last.ID
		}
		return r.Tokens(ctx, list)
	})
}

// Unknown is the error for an id that no token has.
func Unknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "token-id-unknown").Saying("there is no token %s", id).Hinting("`mcpx token list` shows the tokens")
}

// Ambiguous is the error for a beginning of an id that several tokens have.
func Ambiguous(id string) *fault.Error {
	return fault.New(fault.Conflict, "token-id-ambiguous").Saying("several tokens begin with %s", id).
		Hinting("give more of the id; `mcpx token list` shows the tokens")
}

// Taken is the error for a digest that another record has.
func Taken(id string) *fault.Error {
	return fault.New(fault.Conflict, "token-taken").Saying("another token has the value of %s", id).Hinting("make another one")
}

// Missing is the error for a request without a token.
func Missing() *fault.Error {
	return fault.New(fault.Unauthenticated, "token-missing").Saying("every request needs the token of an agent").
		Hinting("`mcpx agents install-control-plane --agent AGENT` sets an agent up")
}

// Malformed is the error for what is no token at all.
func Malformed() *fault.Error {
	return fault.New(fault.Unauthenticated, "token-malformed").Saying("this is no token of mcpx, or a part of it is missing").
		Hinting("`mcpx token print --agent AGENT --as value` gives it whole")
}

// NoScope is the error for a token that counts and does not allow what was asked for.
func NoScope(t Token, need Scope) *fault.Error {
	return fault.New(fault.Denied, "scope-missing").Saying("the token of %s does not allow %s", t.Agent, need).
		Hinting("`mcpx token issue --agent %s --scope %s` after revoking %s", t.Agent, need, t.ID)
}

// DelegationReader reads the delegations of access over OAuth, and their tokens.
type DelegationReader interface {
	// Delegations is one page in order of id, which is the order of making. A page that is shorter than the limit is the last.
	Delegations(ctx context.Context, p ListDelegations) ([]Delegation, error)
	// DelegationByID finds one. NotFound delegation-unknown, Conflict delegation-ambiguous.
	DelegationByID(ctx context.Context, p DelegationByID) (Delegation, error)
	// DelegationToken finds the record of a token by its digest; nil: there is none.
	DelegationToken(ctx context.Context, p DelegationTokenByDigest) (*DelegationToken, error)
	// Remote is what PutRemote wrote last; the zero value before.
	Remote(ctx context.Context) (Remote, error)
}

// DelegationStore reads and changes them.
type DelegationStore interface {
	DelegationReader
	// PutDelegation writes a delegation whole, PutDelegationToken the record of a token.
	PutDelegation(ctx context.Context, p PutDelegation) error
	PutDelegationToken(ctx context.Context, p PutDelegationToken) error
	// DropDelegationTokens removes the records of tokens that were over before a moment.
	DropDelegationTokens(ctx context.Context, p DropDelegationTokens) error
	// PutRemote writes how other machines reach this one.
	PutRemote(ctx context.Context, p PutRemote) error
}

// MaxDelegationPage bounds one page of Delegations: some 500 bytes each, and up to 4 KB.
const MaxDelegationPage = 200

// ListDelegations asks for the delegations after After.
type ListDelegations struct {
	After string // id of the last delegation of the page before
	Limit int    // 0 and everything above MaxDelegationPage is MaxDelegationPage
}

// PageLimit is the number of delegations that the page may hold.
func (p ListDelegations) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxDelegationPage {
		return MaxDelegationPage
	}
	return p.Limit
}

type (
	// DelegationByID names one delegation. A beginning of the id that only one delegation has is enough.
	DelegationByID struct{ ID string }
	// DelegationTokenByDigest names the record of a token.
	DelegationTokenByDigest struct{ Digest string }
	// PutDelegation carries a delegation to write.
	PutDelegation struct{ Delegation Delegation }
	// PutDelegationToken carries the record of a token to write.
	PutDelegationToken struct{ Token DelegationToken }
	// DropDelegationTokens names the moment before which a token was over.
	DropDelegationTokens struct{ Before time.Time }
	// PutRemote carries how other machines reach this one.
	PutRemote struct{ Remote Remote }
)

// AllDelegations reads every delegation, page by page, in order.
func AllDelegations(ctx context.Context, r DelegationReader) ([]Delegation, error) {
	var list ListDelegations
	return page.All(list.PageLimit(), func(last *Delegation) ([]Delegation, error) {
		if last != nil {
			list.After = last.ID
		}
		return r.Delegations(ctx, list)
	})
}

// UnknownDelegation is the error for an id that no delegation has.
func UnknownDelegation(id string) *fault.Error {
	return fault.New(fault.NotFound, "delegation-unknown").Saying("no client was given access under %s", id).Hinting("`mcpx remote list` shows who has access")
}

// AmbiguousDelegation is the error for a beginning of an id that several delegations have.
func AmbiguousDelegation(id string) *fault.Error {
	return fault.New(fault.Conflict, "delegation-ambiguous").Saying("the access of several clients begins with %s", id).
		Hinting("give more of the id; `mcpx remote list` shows who has access")
}
