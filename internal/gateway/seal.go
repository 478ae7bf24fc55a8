package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"io"
	"time"

	"mcpx/internal/fault"
)

const (
	sealKeyLen = 32               // AES-256
	stateTTL   = 15 * time.Minute // how long a client may take to answer a question
)

// state is what requestState carries: which parked call the retry belongs to, and what it must agree with.
type state struct {
	Call      string `json:"c"`
	Principal string `json:"p"`
	Method    string `json:"m"`
	Digest    string `json:"d"` // of the params without the answers
	Expires   int64  `json:"e"` // Unix seconds
}

// sealer makes and opens requestState: authenticated encryption, so that a client can neither read nor invent one.
type sealer struct {
	aead   cipher.AEAD
	random io.Reader
}

func newSealer(key []byte, random io.Reader) (*sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fault.New(fault.Internal, "state-key").Saying("the key for requestState is unusable").Because(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &sealer{aead: aead, random: random}, nil
}

// seal renders a state as text.
func (s *sealer) seal(st state) (string, error) {
	plain, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	if _, err := io.ReadFull(s.random, nonce); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, nil)), nil
}

// open reads a state back. Anything that was not sealed with this key, or is too old, is refused. How long a parked call
// waits is up to the call, which has a clock that nobody sets; only a state that stands for no call ages by its own date.
func (s *sealer) open(text string, now time.Time) (state, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return state{}, false
	}
	plain, err := s.aead.Open(nil, raw[:s.aead.NonceSize()], raw[s.aead.NonceSize():], nil)
	if err != nil {
		return state{}, false
	}
	var st state
	if json.Unmarshal(plain, &st) != nil || st.Call == "" && now.Unix() > st.Expires {
		return state{}, false
	}
	return st, true
}
