// One instance of the service of transformer.py, with franz-go, which uses the second version of transactions (KIP-890) where
// the broker has it. It takes the same arguments but the client's name, says the same on stdout, and ends and pauses as often.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	call       = 5 * time.Second
	idle       = 200 * time.Millisecond
	mostInputs = 60
	odds       = 1.0 / 50
)

type instance struct {
	out        *json.Encoder
	chance     *rand.Rand
	partitions int
	session    *kgo.GroupTransactSession
}

func (i *instance) tell(what ...any) {
	i.out.Encode(what)
}

// end ends the process at once, with nothing closed.
func (i *instance) end(reason string) {
	i.tell("ends", reason)
	os.Exit(0)
}

func (i *instance) endOn(err error) {
	if err != nil {
		i.end(fmt.Sprintf("%v", err))
	}
}

// meetFate in the middle of a transaction: go on, end, or pause; with its records at the broker or not.
func (i *instance) meetFate() {
	drawn := i.chance.Float64()
	if drawn > 2*odds {
		return
	}
	if i.chance.Float64() < 0.5 {
		i.within(func(ctx context.Context) error { return i.session.Client().Flush(ctx) })
	}
	if drawn < odds {
		i.end("in the middle of a transaction")
	}
	i.tell("pauses")
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

func (i *instance) within(work func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), call)
	defer cancel()
	i.endOn(work(ctx))
}

func (i *instance) transform(inputs []*kgo.Record) {
	i.endOn(i.session.Begin())
	failure := kgo.AbortingFirstErrPromise(i.session.Client())
	for _, input := range inputs {
		output := &kgo.Record{Topic: "outputs", Value: input.Value, Partition: int32(i.chance.Intn(i.partitions))}
		i.session.Produce(context.Background(), output, failure.Promise())
	}
	i.meetFate()
	i.within(func(ctx context.Context) error {
		isCommit := failure.Err() == nil
		committed, err := i.session.End(ctx, kgo.TransactionEndTry(isCommit))
		if err == nil && committed {
			i.tell("transformed", len(inputs))
		}
		return err
	})
}

func (i *instance) run() {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), idle)
		inputs := i.session.PollRecords(ctx, 1+i.chance.Intn(mostInputs)).Records()
		cancel()
		if len(inputs) == 0 {
			i.tell("idle")
			continue
		}
		i.transform(inputs)
		if i.chance.Float64() < odds {
			i.session.Close()
			i.end("in order")
		}
	}
}

// sayWhere has SIGUSR1 write on stderr what the goroutines are doing.
func sayWhere() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		stacks := make([]byte, 1<<20)
		os.Stderr.Write(stacks[:runtime.Stack(stacks, true)])
	}
}

func main() {
	go sayWhere()
	servers, group, number, seed := os.Args[1], os.Args[2], os.Args[3], os.Args[5]
	partitions, err := strconv.Atoi(os.Args[4])
	if err != nil {
		panic(err)
	}
	hash := fnv.New64()
	hash.Write([]byte(seed))
	i := &instance{out: json.NewEncoder(os.Stdout), chance: rand.New(rand.NewSource(int64(hash.Sum64()))), partitions: partitions}
	i.tell("starts")
	i.session, err = kgo.NewGroupTransactSession(
		kgo.SeedBrokers(servers),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics("inputs"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.TransactionalID("transformer-"+number),
		kgo.TransactionTimeout(10*time.Second),
		kgo.Balancers(kgo.RangeBalancer()), // which librdkafka has, too
		kgo.SessionTimeout(2*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(20*time.Millisecond),
		kgo.RetryTimeout(call),
	)
	i.endOn(err)
	i.tell("ready")
	i.run()
}
