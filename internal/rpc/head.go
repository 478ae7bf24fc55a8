package rpc

// maxToken bounds what the tracker keeps of an id or a method: the largest id with quotes.
const maxToken = maxID + 2

// tracker finds the top-level id and method of a message that arrives in pieces, in constant memory. It validates
// nothing: it is for messages that are discarded or cut, where knowing which call they answered is all that is left.
type tracker struct {
	id, method found

	off     int // bytes fed
	depth   int
	inText  bool
	escaped bool
	isKey   bool                      // the text under way is a key of the top level
	value   bool                      // a colon was passed: the next token at the top level is a value
	key     [6*len("method") + 2]byte // room for every letter escaped
	keyLen  int
	into    *found // the value under way is kept here
}

// found is one token of the top level.
type found struct {
	raw   []byte
	at    Span
	times int // members with this name
}

// token is the raw token when the message has exactly one and it was not too long.
func (f *found) token() []byte {
	if f.times != 1 || !f.at.Ok() || len(f.raw) != f.at.To-f.at.From {
		return nil
	}
	return f.raw
}

func (t *tracker) feed(b []byte) {
	for _, c := range b {
		t.step(c)
		t.off++
	}
}

func (t *tracker) step(c byte) {
	if t.inText {
		t.keep(c)
		switch {
		case t.escaped:
			t.escaped = false
		case c == '\\':
			t.escaped = true
		case c == '"':
			t.inText = false
			if t.into != nil {
				t.close(t.off + 1)
			}
		}
		return
	}
	switch c {
	case '"':
		t.inText = true
		if t.isKey = t.depth == 1 && !t.value; t.isKey {
			t.keyLen = 0
		}
		t.open()
		t.keep(c)
	case ':':
		t.value = t.value || t.depth == 1
	case '{', '[':
		t.drop()
		t.depth++
	case '}', ']':
		t.close(t.off)
		t.depth--
	case ',', ' ', '\t', '\r', '\n':
		t.close(t.off)
		if c == ',' && t.depth == 1 {
			t.value = false
		}
	default:
		t.open()
		t.keep(c)
	}
}

// open starts a value of the top level when its key is one of ours.
func (t *tracker) open() {
	if t.depth != 1 || !t.value || t.into != nil {
		return
	}
	if t.into = t.named(); t.into != nil {
		t.into.times++
		t.into.at.From = t.off
	}
	t.keyLen = 0 // one value for each key
}

// drop counts a member whose value is an object or array.
func (t *tracker) drop() {
	t.open()
	t.into = nil
}

func (t *tracker) named() *found {
	key := t.key[:t.keyLen]
	switch {
	case isText(key, "id"):
		return &t.id
	case isText(key, "method"):
		return &t.method
	}
	return nil
}

func (t *tracker) close(end int) {
	if t.into != nil {
		t.into.at.To = end
		t.into = nil
	}
}

func (t *tracker) keep(c byte) {
	switch {
	case t.into != nil:
		if len(t.into.raw) < maxToken {
			t.into.raw = append(t.into.raw, c)
		}
	case t.isKey && t.inText && t.keyLen < len(t.key):
		t.key[t.keyLen] = c
		t.keyLen++
	}
}
