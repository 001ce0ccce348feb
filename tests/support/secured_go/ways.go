package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// The ways by name, which the test writes between the braces of the two maps. The other lines use each package that the
// code may need, so that all are fetched and compiled when the tests are set up.
var (
	_ context.Context
	_ tls.Config
	_ x509.CertPool
	_ = os.ReadFile
	_ = base64.RawURLEncoding
	_ = json.Marshal
	_ = time.Now
	_ oauth.Auth
	_ plain.Auth
	_ scram.Auth
	_ oauth2.Token
	_ clientcredentials.Config

	franzGo = map[string]func() []kgo.Opt{}
	saramas = map[string]func() (*sarama.Config, []string){}
)
