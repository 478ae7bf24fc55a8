package httpedge

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"time"

	"mcpx/internal/fault"
)

// assertionLasts is how long an assertion counts. It is used at once.
const assertionLasts = time.Minute

// assert makes the statement by which a client proves that it holds a private key (RFC 7523): a JWT, signed with RS256 or
// ES256, as the key is.
func assert(keyPEM, client, audience string, now time.Time) (string, error) {
	key, alg, err := signingKey(keyPEM)
	if err != nil {
		return "", err
	}
	part := func(v any) (string, error) {
		data, err := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(data), err
	}
	head, err := part(map[string]string{"alg": alg, "typ": "JWT"})
	if err != nil {
		return "", err
	}
	claims, err := part(map[string]any{
		"iss": client, "sub": client, "aud": audience, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(assertionLasts).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed := head + "." + claims
	sum := sha256.Sum256([]byte(signed))
	var signature []byte
	switch key := key.(type) {
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, s, signErr := ecdsa.Sign(rand.Reader, key, sum[:])
		if err = signErr; err == nil {
			const half = 32 // of P-256 (RFC 7518 section 3.4)
			signature = append(r.FillBytes(make([]byte, half)), s.FillBytes(make([]byte, half))...)
		}
	}
	if err != nil {
		return "", badKey("it cannot sign")
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// signingKey reads a private key and says how it signs.
func signingKey(text string) (key any, alg string, err error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, "", badKey("it is not in PEM")
	}
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, "", badKey("it cannot be read") // the cause may quote it
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return k, "RS256", nil
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return k, "ES256", nil
		}
	}
	return nil, "", badKey("it is neither RSA nor EC with P-256")
}

// badKey never says what was read instead of a key.
func badKey(what string) error {
	return fault.New(fault.Invalid, "sign-in-key").Saying("the private key of the client cannot be used: %s", what).
		Hinting("give a reference to a private key in PEM, RSA or EC with P-256").Retrying(fault.AfterFix)
}
