package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"mcpx/internal/event"
)

// MaxActivity bounds one field of an activity, in bytes.
const MaxActivity = 512

// maxWarnings bounds what one activity can add to a result.
const maxWarnings = 8

// activityFields are what a model may say about what it does, in the order in which it is told.
var activityFields = []struct {
	name string
	kind event.Kind
}{
	{"intent", event.ActivityIntent},
	{"hypothesis", event.ActivityHypothesis},
	{"evidence", event.ActivityEvidence},
	{"conclusion", event.ActivityConclusion},
	{"next", event.ActivityNext},
	{"status", event.ActivityStatus},
}

// Said is one field of an activity: a claim of the model, and nothing else.
type Said struct {
	Field string
	Kind  event.Kind
	Text  string // at most MaxActivity bytes of UTF-8
}

// Activity is what a model says about one call, in a fixed order. It changes no decision, no fingerprint and no result.
type Activity []Said

// Intent is what the call is for, "" when nothing was said about it.
func (a Activity) Intent() string {
	if len(a) > 0 && a[0].Kind == event.ActivityIntent {
		return a[0].Text
	}
	return ""
}

// ActivityRequest is what a call carries in its argument activity.
type ActivityRequest struct {
	Raw    json.RawMessage     // absent: nothing
	Redact func(string) string // takes secrets out, before anything is cut; nil keeps all
}

// ReadActivity never fails a call: what is too long is cut at a character, what is of the wrong type or unknown is
// dropped, and each adds one warning.
func ReadActivity(in ActivityRequest) (a Activity, warnings []string) {
	if len(in.Raw) == 0 || string(in.Raw) == "null" {
		return nil, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(in.Raw, &members); err != nil {
		return nil, []string{"activity is no object and was dropped"}
	}
	for _, f := range activityFields {
		raw, given := members[f.name]
		delete(members, f.name)
		var text *string // null is of the wrong type, too
		if err := json.Unmarshal(raw, &text); given && (err != nil || text == nil) {
			warnings = append(warnings, "activity."+f.name+" is no string and was dropped")
			continue
		}
		if text == nil || *text == "" {
			continue
		}
		said := *text
		if in.Redact != nil {
			said = in.Redact(said)
		}
		if len(said) > MaxActivity {
			said = cut(said, MaxActivity)
			warnings = append(warnings, fmt.Sprintf("activity.%s was cut to %d bytes", f.name, len(said)))
		}
		a = append(a, Said{Field: f.name, Kind: f.kind, Text: said})
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		warnings = append(warnings, "activity has no field "+quoted(name)+", which was dropped")
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		warnings = append(warnings[:maxWarnings], fmt.Sprintf("%d more fields of activity were cut or dropped", more))
	}
	return a, warnings
}

// Say notes in the session what was said. A new intent starts a new turn; the same intent on the next call does not.
// False: nothing has to be written.
func Say(s Session, a Activity) (Session, bool) {
	intent := a.Intent()
	if intent == "" || intent == s.Intent {
		return s, false
	}
	s.Intent = intent
	s.Turn++
	return s, true
}

// ActivityDrafts asks for the events of an activity.
type ActivityDrafts struct {
	Activity  Activity
	Session   Session // after Say
	Operation string  // id that the caller gave, "" for a read
	Actor     event.Actor
	Now       time.Time
}

// claim is the body of an activity event. Claim is always true: what a model says is never a fact.
type claim struct {
	Claim bool   `json:"claim"`
	Turn  int    `json:"turn"`
	Text  string `json:"text"`
}

// Drafts are the events of an activity, in its order. They are appended before the events of the call.
func (in ActivityDrafts) Drafts() ([]event.Draft, error) {
	drafts := make([]event.Draft, 0, len(in.Activity))
	for _, said := range in.Activity {
		body, err := json.Marshal(claim{Claim: true, Turn: in.Session.Turn, Text: said.Text})
		if err != nil {
			return nil, err
		}
		refs := event.Refs{event.RefSession: in.Session.ID, event.RefProject: in.Session.Project}
		if in.Operation != "" {
			refs[event.RefOperation] = in.Operation
		}
		drafts = append(drafts, event.Draft{At: in.Now, Kind: said.Kind, Actor: in.Actor, Refs: refs, Summary: "claims " + said.Field + ": " + said.Text, Body: body})
	}
	return drafts, nil
}
