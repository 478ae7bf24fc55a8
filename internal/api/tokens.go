package api

import (
	"time"

	"mcpx/internal/auth"
)

// Token is the token of an agent in a list. Its value is not part of any answer.
type Token struct {
	ID      string       `json:"token_id"`
	Agent   string       `json:"agent"`
	State   auth.State   `json:"state"` // live, replaced, expired, revoked
	Scopes  []auth.Scope `json:"scopes"`
	Created time.Time    `json:"created_at"`
	Used    time.Time    `json:"last_used_at,omitzero"`
	Expires time.Time    `json:"expires_at,omitzero"`
	Revoked time.Time    `json:"revoked_at,omitzero"`
	Next    string       `json:"replaced_by,omitempty"`
}

// TokensQuery selects tokens.
type TokensQuery struct {
	Agent string `json:"-" query:"agent"`
	All   bool   `json:"-" query:"all"` // also those that count no more
}

// TokenPage is a list of tokens in the order of their making.
type TokenPage struct {
	Tokens []Token  `json:"tokens"`
	Next   []string `json:"next"` // commands
}

// IssueToken makes the token of an agent. An agent that has one keeps it.
type IssueToken struct {
	Agent   string   `json:"agent"`
	AnyName bool     `json:"any_name,omitempty"` // the agent is a program that mcpx does not know
	Scopes  []string `json:"scopes,omitempty"`   // none: hub:read and servers:use
	Seconds int      `json:"expires_in,omitempty"`
}

// TokenRef names one token: its id or a beginning of it, or the agent whose live token is meant.
type TokenRef struct {
	Token string `json:"-" path:"token"`
}

// TokenChange is what became of a token. The value is in File, on this machine only.
type TokenChange struct {
	State    string   `json:"state"` // issued, already_issued, rotated, revoked, already_revoked
	Already  bool     `json:"already,omitempty"`
	Token    Token    `json:"token"`
	File     string   `json:"file,omitempty"`     // 0600, holds the value of the agent's live token
	Variable string   `json:"variable,omitempty"` // in which the agent expects the value with the strategy env
	Text     string   `json:"text"`
	Next     []string `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}
