// Command secured-go writes one record to the topic "orders" by each way in that ways.go has, which a test makes of what
// `kmini client-config franz-go` and `kmini client-config sarama` print. It ends with 0 if all were acknowledged.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/xdg-go/scram"
	"golang.org/x/oauth2"
)

func main() {
	failed := false
	for name, way := range franzGo {
		failed = report("franz-go", name, withFranzGo(way())) || failed
	}
	for name, way := range saramas {
		failed = report("sarama", name, withSarama(way())) || failed
	}
	if failed {
		os.Exit(1)
	}
}

func report(client, way string, err error) bool {
	if err != nil {
		fmt.Printf("%s, %s: %v\n", client, way, err)
	}
	return err != nil
}

func withFranzGo(options []kgo.Opt) error {
	client, err := kgo.NewClient(append(options, kgo.DisableIdempotentWrite())...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("franz-go")}).FirstErr()
}

func withSarama(config *sarama.Config, addresses []string) error {
	config.Producer.Return.Successes = true
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: "orders", Value: sarama.StringEncoder("sarama")})
	return err
}

type scramClient struct {
	hash scram.HashGeneratorFcn
	talk *scram.ClientConversation
}

// What the printed code calls newScramClient, for a mechanism.
func scramClientsOf(mechanism string) func() sarama.SCRAMClient {
	hash := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}[mechanism]
	return func() sarama.SCRAMClient { return &scramClient{hash: hash} }
}

func (client *scramClient) Begin(user, password, authzID string) error {
	made, err := client.hash.NewClient(user, password, authzID)
	if err == nil {
		client.talk = made.NewConversation()
	}
	return err
}

func (client *scramClient) Step(challenge string) (string, error) { return client.talk.Step(challenge) }

func (client *scramClient) Done() bool { return client.talk.Done() }

type tokenProvider struct{ tokens oauth2.TokenSource }

func newTokenProvider(tokens oauth2.TokenSource) sarama.AccessTokenProvider {
	return tokenProvider{tokens}
}

func (provider tokenProvider) Token() (*sarama.AccessToken, error) {
	token, err := provider.tokens.Token()
	if err != nil {
		return nil, err
	}
	return &sarama.AccessToken{Token: token.AccessToken}, nil
}
