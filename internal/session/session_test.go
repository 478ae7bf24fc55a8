package session

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// codeOf is the code of a refusal, "" for nil, and the text of any other error.
func codeOf(err error) operation.Code {
	if err == nil {
		return ""
	}
	if r, ok := errors.AsType[*operation.Refusal](err); ok {
		return r.Code
	}
	return operation.Code(err.Error())
}

func wantCode(t *testing.T, what string, err error, want operation.Code) {
	t.Helper()
	if got := codeOf(err); got != want {
		t.Errorf("%s: %q, want %q (%v)", what, got, want, err)
	}
}

func shop() Project {
	return Project{ID: "proj_1", Name: "shop", Path: "/srv/shop", By: ByIdentity, State: ProjectOK, Physical: Identity{Real: "/srv/shop", Volume: "f1", Inode: 7, Born: 1}}
}

// TestRoles is the table of runtime.md section 2.
func TestRoles(t *testing.T) {
	acts := []Act{ActRead, ActChange, ActDecide, ActShare}
	for role, may := range map[Role]string{
		Viewer: "y---", Approver: "y-y-", Editor: "yy--", Owner: "yyyy", "": "----", "emperor": "----",
	} {
		for i, act := range acts {
			if got := role.May(act); got != (may[i] == 'y') {
				t.Errorf("%s may %s: %v", role, act, got)
			}
		}
	}
	for _, act := range acts {
		if !Needs(act).May(act) {
			t.Errorf("%s is said to need %s, which does not permit it", act, Needs(act))
		}
	}
}

func TestRoleIn(t *testing.T) {
	s := Session{ID: "rs_1", Principal: "ann", Project: "proj_1"}
	grants := []Grant{
		{About: "proj_1", Principal: "ann", Role: Editor},
		{About: "rs_1", Principal: "bob", Role: Approver},
		{About: "rs_2", Principal: "eve", Role: Editor},
		{About: "rs_1", Principal: "ann", Role: Viewer}, // her own session: what she is on the project counts
		{About: "rs_1", Principal: "max", Role: Owner},  // nothing gives this away
		{About: "proj_1", Principal: "tim", Role: Editor},
	}
	for principal, want := range map[string]Role{"ann": Editor, "bob": Approver, "eve": "", "max": "", "tim": "", Operator: ""} {
		if got := RoleIn(s, principal, grants); got != want {
			t.Errorf("%s is %q in it, want %q", principal, got, want)
		}
	}
	s.Principal = Operator
	if got := RoleIn(s, Operator, nil); got != Owner {
		t.Errorf("the operator is %q in its own session", got)
	}
	s.Principal = "zoe" // her grant of the project was taken away
	if got := RoleIn(s, "zoe", grants); got != "" {
		t.Errorf("a guest is %q in its own session", got)
	}
}

func TestGrant(t *testing.T) {
	in := GrantRequest{About: "rs_1", Principal: "bob", Role: Editor, By: "ann", Now: noon}
	g, err := GrantSession(in)
	if d := cmp.Diff(Grant{About: "rs_1", Principal: "bob", Role: Editor, By: "ann", At: noon}, g); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for what, spoil := range map[string]func(*GrantRequest){
		"owner":        func(in *GrantRequest) { in.Role = Owner },
		"no role":      func(in *GrantRequest) { in.Role = "" },
		"the operator": func(in *GrantRequest) { in.Principal = Operator },
		"nobody":       func(in *GrantRequest) { in.Principal = "" },
		"a line break": func(in *GrantRequest) { in.Principal = "a\nb" },
	} {
		bad := in
		spoil(&bad)
		_, err := GrantSession(bad)
		wantCode(t, what, err, operation.ArgumentInvalid)
	}
	in.Role = Approver
	_, err = GrantProject(in)
	wantCode(t, "an approver of a project", err, operation.ArgumentInvalid)
}

func TestOpenSession(t *testing.T) {
	in := OpenRequest{ID: "rs_1", Principal: "ann", Role: Editor, Project: shop(), Label: "Ünïcode", Now: noon}
	s, err := OpenSession(in)
	if d := cmp.Diff(Session{ID: "rs_1", Principal: "ann", Project: "proj_1", Label: "Ünïcode", State: Open, Created: noon, Used: noon}, s); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for what, c := range map[string]struct {
		spoil func(*OpenRequest)
		want  operation.Code
	}{
		"a guest":             {func(in *OpenRequest) { in.Role = "" }, operation.ProjectUnknown},
		"an unregistered one": {func(in *OpenRequest) { in.Project.State = ProjectRemoved }, operation.ProjectUnknown},
		"a moved one":         {func(in *OpenRequest) { in.Project.State = ProjectMoved }, operation.ProjectMoved},
		"unstable inodes":     {func(in *OpenRequest) { in.Project.Physical.Unstable = "nfs" }, FSUnsupported},
		"a long label":        {func(in *OpenRequest) { in.Label = strings.Repeat("ü", MaxLabel+1) }, operation.ArgumentInvalid},
		"a label of lines":    {func(in *OpenRequest) { in.Label = "a\nb" }, operation.ArgumentInvalid},
	} {
		bad := in
		c.spoil(&bad)
		_, err := OpenSession(bad)
		wantCode(t, what, err, c.want)
	}
	in.Label = strings.Repeat("ü", MaxLabel)
	if _, err := OpenSession(in); err != nil {
		t.Errorf("a label of %d characters: %v", MaxLabel, err)
	}
}

// TestRT23Closed: a closed session refuses every change and answers reads; a foreign one answers like a missing one.
func TestRT23Closed(t *testing.T) {
	s := Session{ID: "rs_1", State: Open}
	if _, changed, err := CloseSession(CloseRequest{Session: s, Jobs: []string{"job_1"}, Now: noon}); codeOf(err) != JobsRunning || changed {
		t.Errorf("with a job: %v, %v", changed, err)
	} else if r, _ := errors.AsType[*operation.Refusal](err); r.Retry != fault.AfterWait || !slices.Equal(r.Details["jobs"].([]string), []string{"job_1"}) {
		t.Errorf("the refusal is %+v", r)
	}
	closed, changed, err := CloseSession(CloseRequest{Session: s, Now: noon})
	if err != nil || !changed || closed.State != Closed || !closed.Closed.Equal(noon) {
		t.Fatalf("closed: %+v, %v, %v", closed, changed, err)
	}
	if again, changed, err := CloseSession(CloseRequest{Session: closed, Jobs: []string{"job_1"}, Now: noon.Add(time.Hour)}); changed || err != nil || !again.Closed.Equal(noon) {
		t.Errorf("closed again: %+v, %v, %v", again, changed, err)
	}
	for _, c := range []struct {
		s    Session
		role Role
		act  Act
		want operation.Code
	}{
		{s, Owner, ActShare, ""},
		{s, Editor, ActChange, ""},
		{s, Editor, ActShare, operation.RoleDenied},
		{s, Viewer, ActChange, operation.RoleDenied},
		{closed, Viewer, ActRead, ""},
		{closed, Owner, ActChange, operation.SessionClosed},
		{closed, Owner, ActDecide, operation.SessionClosed},
		{closed, Owner, ActShare, operation.SessionClosed},
		{closed, Viewer, ActChange, operation.RoleDenied},
		{closed, "", ActRead, operation.SessionNotFound},
		{s, "", ActChange, operation.SessionNotFound},
	} {
		err := Check(CheckRequest{Session: c.s, Role: c.role, Act: c.act})
		wantCode(t, string(c.s.State)+" "+string(c.role)+" "+string(c.act), err, c.want)
		if r, ok := errors.AsType[*operation.Refusal](err); ok && c.want == operation.RoleDenied && r.Details["needs"] != Needs(c.act) {
			t.Errorf("needs is %v", r.Details["needs"])
		}
	}
}

// TestTouch: however often a session is used, its row is written once a minute, and lies less than that behind.
func TestTouch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Session{Used: noon}
		now, wrote := noon, noon
		for range rapid.IntRange(1, 50).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "pause")))
			next, write := Touch(s, now)
			if write {
				if now.Sub(wrote) < UseEvery || !next.Used.Equal(now) {
					t.Fatalf("written %s after the last time, used at %s", now.Sub(wrote), next.Used)
				}
				wrote = now
			} else if next != s {
				t.Fatal("changed without a write")
			}
			s = next
			if now.Sub(s.Used) >= UseEvery {
				t.Fatalf("last_used_at is %s behind", now.Sub(s.Used))
			}
		}
	})
}

func TestHandoff(t *testing.T) {
	in := HandoffRequest{ID: "ho_01ABC", Session: "rs_1", By: "ann", Operation: "op-1", Now: noon}
	h, err := MakeHandoff(in)
	want := Handoff{ID: "ho_01ABC", Session: "rs_1", Role: Viewer, By: "ann", Operation: "op-1", Made: noon, Expires: noon.Add(HandoffTTL)}
	if d := cmp.Diff(want, h); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for what, spoil := range map[string]func(*HandoffRequest){
		"owner":     func(in *HandoffRequest) { in.Role = Owner },
		"too short": func(in *HandoffRequest) { in.TTL = MinHandoffTTL - 1 },
		"too long":  func(in *HandoffRequest) { in.TTL = MaxHandoffTTL + 1 },
		"negative":  func(in *HandoffRequest) { in.TTL = -time.Hour },
	} {
		bad := in
		spoil(&bad)
		_, err := MakeHandoff(bad)
		wantCode(t, what, err, operation.ArgumentInvalid)
	}
}

// TestRT22Handoff: any series of people who present tokens, right, wrong, foreign or late, comes into the session once,
// with exactly the role; everybody else gets one and the same refusal.
func TestRT22Handoff(t *testing.T) {
	key, other := []byte("key of this daemon"), []byte("key of another")
	rapid.Check(t, func(t *rapid.T) {
		role := rapid.SampledFrom(given).Draw(t, "role")
		h, err := MakeHandoff(HandoffRequest{ID: "ho_01ABC", Session: "rs_1", Role: role, TTL: time.Hour, By: "ann", Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		s := Session{ID: "rs_1", Principal: "ann", State: rapid.SampledFrom([]State{Open, Open, Open, Closed}).Draw(t, "state")}
		now, uses := noon, 0
		for range rapid.IntRange(1, 8).Draw(t, "tries") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Minute)).Draw(t, "pause")))
			token := rapid.SampledFrom([]string{
				tokenOf(key, h.ID), tokenOf(key, h.ID), tokenOf(other, h.ID), tokenOf(key, "ho_01ABD"), "", TokenPrefix, tokenOf(key, h.ID) + "x",
			}).Draw(t, "token")
			who := rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "who")
			shown := h.Token(key, now)
			found, err := HandoffOf(key, token)
			if err != nil || found != h.ID {
				if err != nil {
					wantSame(t, err)
				}
				continue
			}
			used, grant, err := Redeem(RedeemRequest{Handoff: h, Session: s, Principal: who, Now: now})
			if err != nil {
				wantSame(t, err)
				if shown != "" && s.State == Open {
					t.Fatal("a token that is shown opens nothing")
				}
				continue
			}
			uses++
			if shown == "" || s.State == Closed || uses > 1 || !now.Before(h.Expires) {
				t.Fatalf("use %d at %s of a session that is %s; shown %q", uses, now, s.State, shown)
			}
			want := Grant{About: "rs_1", Principal: who, Role: role, By: "ann", Handoff: h.ID, At: now}
			if who == "ann" {
				want = Grant{}
			}
			if d := cmp.Diff(want, grant); d != "" {
				t.Fatal(d)
			}
			if role == Owner || grant.Role == Owner {
				t.Fatal("a hand-over gave away the session")
			}
			h = used
		}
	})
}

func wantSame(t *rapid.T, err error) {
	if d := cmp.Diff(InvalidHandoff(), err); d != "" {
		t.Fatal(d)
	}
}

// TestTokenIsNotStored: what is stored about a hand-over does not lead to its token.
func TestTokenIsNotStored(t *testing.T) {
	h, err := MakeHandoff(HandoffRequest{ID: "ho_01ABC", Session: "rs_1", Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	token := h.Token([]byte("k"), noon)
	if again := h.Token([]byte("k"), noon.Add(time.Minute)); again != token || !strings.HasPrefix(token, TokenPrefix+"01ABC_") {
		t.Errorf("the token is %q and then %q", token, again)
	}
	if h.Token([]byte("k"), h.Expires) != "" {
		t.Error("an expired token is shown")
	}
	if mac := token[strings.LastIndexByte(token, '_')+1:]; strings.Contains(strings.ToUpper(strings.Join([]string{h.ID, h.Session, h.By, h.Operation}, " ")), mac) || len(mac) != 32 {
		t.Errorf("the secret part is %q", mac)
	}
}

func FuzzHandoffOf(f *testing.F) {
	key := []byte("k")
	f.Add(tokenOf(key, "ho_01ABC"))
	f.Add(TokenPrefix + "_")
	f.Fuzz(func(t *testing.T, token string) {
		handoff, err := HandoffOf(key, token)
		if err == nil && tokenOf(key, handoff) != token {
			t.Errorf("%q leads to %s, whose token is another", token, handoff)
		}
	})
}
