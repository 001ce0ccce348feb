// One member of a consumer group in the new protocol, with franz-go: it takes the arguments of group_member.py, and tells on
// stdout what it owns and handles as that does. SIGTERM makes it leave in order.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"slices"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type place struct {
	topic     string
	partition int32
}

// member commits after it has handled records, and tells the partitions that it owns after each change.
type member struct {
	mutex sync.Mutex
	out   *json.Encoder
	owned map[place]bool
	// uncommitted has the records that were handled since the last commit.
	uncommitted [][]any
}

func (m *member) tell(kind string, rest ...any) {
	m.out.Encode(append([]any{kind, time.Now().UnixMicro()}, rest...))
}

func (m *member) change(kind string, partitions map[string][]int32, owns bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			if owns {
				m.owned[place{topic, number}] = true
			} else {
				delete(m.owned, place{topic, number})
				m.uncommitted = slices.DeleteFunc(m.uncommitted, func(record []any) bool {
					return record[0] == topic && record[1] == number
				})
			}
		}
	}
	owned := [][]any{}
	for each := range m.owned {
		owned = append(owned, []any{each.topic, each.partition})
	}
	sort.Slice(owned, func(i, j int) bool {
		if owned[i][0] != owned[j][0] {
			return owned[i][0].(string) < owned[j][0].(string)
		}
		return owned[i][1].(int32) < owned[j][1].(int32)
	})
	m.tell(kind, owned)
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	m.change("owned", partitions, true)
}

// revoked commits what is handled: the client blocks a rebalance from a poll until the records of that poll are committed.
func (m *member) revoked(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	m.commit(ctx, client)
	m.change("owned", partitions, false)
}

func (m *member) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	m.change("lost", partitions, false)
}

func (m *member) pollFailed(_ string, _ int32, err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.tell("poll failed", err.Error())
}

func (m *member) handle(records []*kgo.Record) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, record := range records {
		m.uncommitted = append(m.uncommitted, []any{record.Topic, record.Partition, record.Offset})
		m.tell("record", record.Topic, record.Partition, record.Offset)
	}
}

func (m *member) commit(ctx context.Context, client *kgo.Client) {
	err := client.CommitUncommittedOffsets(ctx)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err != nil {
		m.tell("commit failed", m.uncommitted, err.Error())
		return
	}
	m.uncommitted = [][]any{}
}

func (m *member) run(ctx context.Context, client *kgo.Client) {
	for {
		fetches := client.PollRecords(ctx, 100)
		if ctx.Err() != nil {
			client.AllowRebalance()
			return
		}
		fetches.EachError(m.pollFailed)
		if records := fetches.Records(); len(records) > 0 {
			m.handle(records)
			m.commit(context.Background(), client)
		}
		client.AllowRebalance()
	}
}

func main() {
	instance := flag.String("instance", "", "the instance id of a static member")
	subscription := flag.String("subscription", "topics", "topics, or expression")
	clientID := flag.String("client-id", "readers", "")
	flag.Parse()
	m := &member{out: json.NewEncoder(os.Stdout), owned: map[place]bool{}, uncommitted: [][]any{}}
	topic := flag.Arg(2)
	options := []kgo.Opt{
		kgo.SeedBrokers(flag.Arg(0)),
		kgo.ConsumerGroup(flag.Arg(1)),
		kgo.ClientID(*clientID),
		kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.StickyBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.MetadataMaxAge(500 * time.Millisecond),
	}
	if *subscription == "expression" {
		topic = "^" + topic + "$" // it looks for a match anywhere in the name
		options = append(options, kgo.ConsumeRegex())
	}
	options = append(options, kgo.ConsumeTopics(topic))
	if *instance != "" {
		options = append(options, kgo.InstanceID(*instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m.run(ctx, client)
	client.CloseAllowingRebalance()
}
