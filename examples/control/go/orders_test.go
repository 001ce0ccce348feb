package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	kafka = cmp.Or(os.Getenv("KAFKA"), "localhost:9092")
	kmini = cmp.Or(os.Getenv("KMINI"), "http://localhost:8090")
)

// api calls the control API; a problem fails the test with what it says.
func api(t *testing.T, verb, path, body string) []byte {
	t.Helper()
	request, err := http.NewRequest(verb, kmini+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+os.Getenv("KMINI_HTTP_TOKEN"))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %v", verb, path, text, err)
	}
	return text
}

func client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options, kgo.SeedBrokers(kafka), kgo.MetadataMinAge(100*time.Millisecond))
	made, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func produce(t *testing.T, order string) {
	t.Helper()
	record := &kgo.Record{Topic: "orders", Value: []byte(order)}
	if err := client(t).ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func firstOrder(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	fetches := client(t, kgo.ConsumeTopics("orders")).PollFetches(ctx)
	if fetches.Empty() {
		t.Fatalf("no order comes: %v", fetches.Errors())
	}
	return string(fetches.Records()[0].Value)
}

func TestAProducerGoesOnWhenTheLeaderMoves(t *testing.T) {
	api(t, "POST", "/reset", "")
	api(t, "POST", "/topics", `{"name": "orders", "partitions": 1}`)
	api(t, "PUT", "/faults", `{"rules": [{
		"name": "moved",
		"when": {"api": ["Produce"], "topic": "orders"},
		"which": {"times": 2},
		"do": [{"error": "NOT_LEADER_OR_FOLLOWER"}]
	}]}`)
	produce(t, "order 1")
	var rule struct{ Hits int }
	if err := json.Unmarshal(api(t, "GET", "/faults/moved", ""), &rule); err != nil || rule.Hits != 2 {
		t.Fatalf("the rule was met %d times, not 2: %v", rule.Hits, err)
	}
	if order := firstOrder(t); order != "order 1" {
		t.Fatalf("the first order is %q", order)
	}
}

func TestOrdersAreKeptForADay(t *testing.T) {
	api(t, "POST", "/reset", "")
	api(t, "POST", "/topics", `{"name": "orders", "partitions": 1, "config": {
		"retention.ms": 86400000, "message.timestamp.type": "LogAppendTime"
	}}`)
	produce(t, "order 1")
	api(t, "POST", "/clock/advance", `{"duration": "7d"}`)
	produce(t, "order 2")
	if order := firstOrder(t); order != "order 2" {
		t.Fatalf("the first order is %q", order)
	}
}
