package work

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/secret"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// CommandStatus are the arguments of command_status.
type CommandStatus struct {
	Claims
	Session   string     `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Job       string     `json:"job_id,omitempty" jsonschema:"the job"`
	Operation string     `json:"operation_id,omitempty" jsonschema:"instead: the operation that started it"`
	WaitMS    int        `json:"wait_ms,omitempty" jsonschema:"0 to 25000, for the end"`
	Output    *outputAsk `json:"output,omitempty" jsonschema:"which part; the end of both streams without it"`
}

// outputAsk says which part of the output is wanted.
type outputAsk struct {
	Stream string `json:"stream,omitempty" jsonschema:"stdout or stderr; both without it"`
	Offset *int64 `json:"offset,omitempty" jsonschema:"first byte, 0-based; continue with next_offset"`
	Max    *int   `json:"max,omitempty" jsonschema:"bytes, 0 to 20000; 8000 without it"`
	Tail   int    `json:"tail,omitempty" jsonschema:"instead of offset: so many bytes of the end"`
	Grep   string `json:"grep,omitempty" jsonschema:"instead: lines that match this RE2"`
}

// jobShown is what is told about a job.
type jobShown struct {
	Job         string              `json:"job_id"`
	State       operation.JobState  `json:"state"`
	Reason      string              `json:"reason,omitempty"`
	Text        string              `json:"text,omitempty"`
	Code        *int                `json:"exit_code"`
	Signal      string              `json:"signal,omitempty"`
	Stopped     string              `json:"stopped_by,omitempty"`
	Outside     operation.Outside   `json:"external_outcome,omitempty"`
	Started     string              `json:"started_at,omitempty"`
	Ended       string              `json:"ended_at,omitempty"`
	Version     string              `json:"supervisor_version,omitempty"`
	Descendants bool                `json:"descendants_alive"`
	Survivors   []int               `json:"survivors,omitempty"` // of one whose supervisor was killed
	Stdout      *streamShown        `json:"stdout,omitempty"`
	Stderr      *streamShown        `json:"stderr,omitempty"`
	Stdin       *operation.JobInput `json:"stdin,omitempty"`
	Sandbox     json.RawMessage     `json:"sandbox,omitempty"`
	Generation  *briefGeneration    `json:"generation,omitempty"`
	Audit       *briefAudit         `json:"audit,omitempty"`
}

// streamShown is a part of a stream.
type streamShown struct {
	Text       string `json:"text,omitempty"`
	Base64     string `json:"base64,omitempty"` // instead of text: bytes that are none
	Offset     int64  `json:"offset"`
	Next       int64  `json:"next_offset"`
	Bytes      int64  `json:"bytes"`
	Dropped    int64  `json:"dropped"`
	Redactions int    `json:"redactions,omitempty"`
}

// admitJob finds a job that a caller may look at, or act on: one of its own, or of a session that it is in.
func (s *Service) admitJob(ctx context.Context, r store.Reader, t *turn, id string, act session.Act) (operation.Job, error) {
	j, err := r.JobByID(ctx, operation.JobByID{ID: id})
	unknown := operation.Refuse(operation.NotFound, "there is no job %.64q", id)
	if fault.KindOf(err) == fault.NotFound {
		return j, unknown
	}
	if err != nil || t.person { // the commands of everybody are the owner's
		return j, err
	}
	if j.Session != "" {
		if _, err := session.Admit(ctx, r, session.AdmitRequest{Session: j.Session, Principal: t.Principal, Act: session.ActRead}); err != nil {
			return j, unknown
		}
		_, err := session.Admit(ctx, r, session.AdmitRequest{Session: j.Session, Principal: t.Principal, Act: act})
		return j, err
	}
	if j.By.Namespace != t.Principal {
		return j, unknown
	}
	_, err = session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: j.Project, Principal: t.Principal, Act: act})
	return j, err
}

func commandStatus(ctx context.Context, s *Service, t *turn) (any, error) {
	var in CommandStatus
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if (in.Job == "") == (in.Operation == "") {
		return nil, operation.Refuse(operation.ArgumentInvalid, "give exactly one of job_id and operation_id")
	}
	var j operation.Job
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		if in.Operation != "" {
			page, err := r.Jobs(ctx, operation.ListJobs{Principal: t.Principal, Operation: in.Operation, Limit: 1})
			if err != nil {
				return err
			}
			if len(page) == 0 {
				o, err := r.OperationByName(ctx, operation.ByName{Name: operation.Name{Namespace: t.Principal, ID: in.Operation}})
				if err == nil && o.State == operation.Dispatched { // it may run by now, and that is written down next
					return operation.InProgress(o.ID, o.Claimed)
				}
				return operation.Refuse(operation.NotFound, "no command was started by %.128q", in.Operation)
			}
			in.Job = page[0].ID
		}
		var err error
		j, err = s.admitJob(ctx, r, t, in.Job, session.ActRead)
		return err
	})
	if err != nil {
		return nil, err
	}
	switch l := s.jobs.find(j.ID); {
	case l != nil && in.WaitMS > 0:
		if err := t.wait(ctx, l.done); err != nil {
			return nil, err
		}
		j = l.get()
	case l == nil && !j.State.Final(): // it has ended since it was read
		err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
			j, err = s.admitJob(ctx, r, t, j.ID, session.ActRead)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	s.acknowledge(ctx, t, j.By)
	ask := outputAsk{}
	if in.Output != nil {
		ask = *in.Output
	}
	return s.statusOf(ctx, j, ask)
}

// acknowledge notes that whoever made an operation asked about it, or used what it has made: it is no longer in the way of the same call
// under another id. What anybody else does, or an answer that nobody reads, tells its caller nothing.
func (s *Service) acknowledge(ctx context.Context, t *turn, n operation.Name) {
	if t.person || n.Namespace != t.Principal || t.unheard() {
		return
	}
	row, err := s.find(ctx, n)
	if err != nil || row == nil || row.Acked || !row.State.Final() {
		return // what is under way is in the way whoever asked
	}
	_ = s.cfg.DB.Change(ctx, func(tx store.Tx) error { // best effort: without it the same call has to say distinct_from
		o, err := tx.OperationByName(ctx, operation.ByName{Name: n})
		if err != nil {
			return err
		}
		o.Acked = true
		return tx.PutOperation(ctx, operation.PutOperation{Operation: o})
	})
}

// statusOf is what is told about a job, with a part of its output.
func (s *Service) statusOf(ctx context.Context, j operation.Job, ask outputAsk) (any, error) {
	shown := jobShown{
		Job: j.ID, State: j.State, Reason: j.Reason, Text: s.cfg.RedactText(j.Text), Code: j.Code, Signal: j.Signal, Stopped: j.Stopped, Outside: j.Outside,
		Started: timeShown(j.Started), Ended: timeShown(j.Ended), Sandbox: j.Sandbox,
	}
	if err := s.becameOf(ctx, j, &shown); err != nil {
		return nil, err
	}
	answer := outcome{}
	if j.State != operation.JobReserved && j.State != operation.JobFailed && j.Reason != operation.RecordMissing && j.Cleared.IsZero() {
		e, err := s.cfg.Runner.Look(ctx, j.JobRef)
		if err != nil {
			return nil, err
		}
		shown.Version, shown.Descendants, shown.Survivors = e.Version, e.GoesOn(), e.Survivors
		if j.Command.Stdin == operation.StdinOpen {
			in, err := s.cfg.Runner.Input(ctx, j.JobRef)
			if err != nil {
				return nil, err
			}
			in.Closed = in.Closed || j.State.Final()
			shown.Stdin = &in
		}
		switch ask.Stream {
		case "", string(operation.Stdout), string(operation.Stderr):
		default:
			return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no stream; stdout and stderr are", ask.Stream)
		}
		for _, one := range []struct {
			stream operation.Stream
			to     **streamShown
		}{{operation.Stdout, &shown.Stdout}, {operation.Stderr, &shown.Stderr}} {
			if ask.Stream != "" && ask.Stream != string(one.stream) {
				continue
			}
			if *one.to, err = s.streamOf(ctx, j, one.stream, ask); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case !j.Cleared.IsZero():
		answer.warnings = append(answer.warnings, string(operation.ResultExpired)+": what the command wrote is not kept any more")
	case !j.State.Final():
		answer.next = []operation.Next{{Tool: "command_status", Args: map[string]any{"job_id": j.ID, "wait_ms": 20000}, Why: "waits for its end"}}
	case j.State == operation.JobExited && j.Code != nil && *j.Code == exitNoCommand:
		answer.warnings = append(answer.warnings, "COMMAND_NOT_FOUND: the exit code 127 says that a program was not found")
	case j.Outside == operation.OutsideUnknown:
		answer.warnings = append(answer.warnings, "OUTCOME_UNKNOWN: nobody saw the end of the command; look at what is there before it is run again")
	}
	answer.bad = j.State.Final() && (j.State != operation.JobExited || j.Code == nil || *j.Code != 0) && j.State != operation.JobKilled
	answer.data = shown
	return answer, nil
}

func timeShown(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

const (
	// secretReach is how far a value that must not be shown may lie on both sides of the border of a window.
	secretReach = 4 << 10
	// borderNear is how far from a border every byte is tried; farther away, as in a key of many lines, the ends of lines are.
	borderNear = 64
	// streamInline is how much one of two streams may take of an answer, as JSON.
	streamInline = (inlineLimit - envelope) / 2
	// grepReach bounds what is searched for lines.
	grepReach = 8 << 20
)

// streamOf is the part of a stream that is asked for.
func (s *Service) streamOf(ctx context.Context, j operation.Job, stream operation.Stream, ask outputAsk) (*streamShown, error) {
	most := usualOutput
	if ask.Max != nil {
		most = min(max(*ask.Max, 0), maxOutput)
	}
	at := operation.OutputAt{JobRef: j.JobRef, Stream: stream, Max: most}
	switch {
	case ask.Grep != "":
		return s.grepped(ctx, at, ask.Grep)
	case ask.Offset != nil && *ask.Offset >= 0:
		at.Offset = *ask.Offset
	case ask.Tail > 0:
		at.Max = min(ask.Tail, maxOutput)
		at.Offset = -int64(at.Max)
	default:
		at.Offset = -int64(most)
	}
	for ; ; at.Max = at.Max * 3 / 4 {
		w, err := s.window(ctx, j, at)
		if err != nil {
			return nil, err
		}
		quoted, err := json.Marshal(w.Text + w.Base64)
		if err != nil {
			return nil, err
		}
		if len(quoted) <= streamInline || at.Max < 1024 {
			return w, nil
		}
		if at.Offset < 0 {
			at.Offset = at.Offset * 3 / 4
		}
	}
}

// window reads a part of a stream. It begins and ends between characters, and no value that must not be shown lies across
// its borders.
func (s *Service) window(ctx context.Context, j operation.Job, at operation.OutputAt) (*streamShown, error) {
	zero := at
	zero.Max = 0
	o, err := s.cfg.Runner.Output(ctx, zero)
	if err != nil {
		return nil, err
	}
	wide := operation.OutputAt{JobRef: at.JobRef, Stream: at.Stream, Offset: max(o.Offset-secretReach, 0), Max: at.Max + 2*secretReach}
	got, err := s.cfg.Runner.Output(ctx, wide)
	if err != nil {
		return nil, err
	}
	from := int(max(o.Offset-got.Offset, 0))
	from = min(from, len(got.Data))
	to := min(from+at.Max, len(got.Data))
	exact := at.Offset >= 0 // the caller goes on from there: it begins where it says, or not at all
	from = s.border(got.Data, from, +1)
	for !exact && from < to && !utf8.RuneStart(got.Data[from]) {
		from++
	}
	to = max(s.border(got.Data, to, -1), from)
	if whole := to == len(got.Data) && j.State.Final(); !whole {
		to = from + characters(got.Data[from:to])
	}
	out := &streamShown{Offset: got.Offset + int64(from), Next: got.Offset + int64(to), Bytes: got.Size, Dropped: got.Dropped}
	part := got.Data[from:to]
	if utf8.Valid(part) {
		out.Text = s.cfg.RedactText(string(part))
		out.Redactions = strings.Count(out.Text, redactedMark) - strings.Count(string(part), redactedMark) + redactedBefore(j, string(part))
	} else {
		out.Base64 = base64.StdEncoding.EncodeToString([]byte(s.cfg.RedactText(string(part))))
	}
	return out, nil
}

// redactedBefore counts the secrets of a job that its supervisor has taken out of a part of the output.
func redactedBefore(j operation.Job, part string) (n int) {
	for _, name := range j.Command.Secrets {
		n += strings.Count(part, secret.Marker(name))
	}
	return n
}

// redactedMark begins what stands in place of a value.
const redactedMark = "[redacted"

// border moves a border until no value lies across it: then both sides redacted are the whole redacted.
func (s *Service) border(data []byte, at, step int) int {
	low, high := max(at-secretReach, 0), min(at+secretReach, len(data))
	whole := s.cfg.RedactText(string(data[low:high]))
	for i := at; i > low && i < high; i += step {
		if (i-at)*step > borderNear && data[i-1] != '\n' {
			continue
		}
		if s.cfg.RedactText(string(data[low:i]))+s.cfg.RedactText(string(data[i:high])) == whole {
			return i
		}
	}
	if step < 0 {
		return min(at, high)
	}
	return at
}

// characters is how much of some text ends at the end of a character. What is no text is left whole.
func characters(b []byte) int {
	for n := 1; n <= utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return len(b) - n
			}
			break
		}
	}
	return len(b)
}

// grepped are the lines of a stream that match.
func (s *Service) grepped(ctx context.Context, at operation.OutputAt, expression string) (*streamShown, error) {
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, operation.Refuse(operation.ArgumentInvalid, "grep is no RE2 expression: %s", err)
	}
	most := at.Max
	at.Max, at.Offset = grepReach, -grepReach
	o, err := s.cfg.Runner.Output(ctx, at)
	if err != nil {
		return nil, err
	}
	out := &streamShown{Offset: o.Offset, Next: o.Size, Bytes: o.Size, Dropped: o.Dropped}
	text := s.cfg.RedactText(string(o.Data))
	var found strings.Builder
	for n, line := 1, ""; text != ""; n++ {
		line, text, _ = strings.Cut(text, "\n")
		if re.MatchString(line) {
			found.WriteString(strconv.Itoa(n) + ":" + head([]byte(strings.ToValidUTF8(line, "�")), 500) + "\n")
		}
		if found.Len() > most {
			break
		}
	}
	out.Text = head([]byte(found.String()), most)
	out.Redactions = strings.Count(out.Text, redactedMark)
	return out, nil
}
