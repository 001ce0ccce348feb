// sarama at its defaults but for where a new group begins: a member of a consumer group, and a producer.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

type billing struct{ invoices sarama.SyncProducer }

func (billing) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (billing) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (b billing) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for order := range claim.Messages() {
		value := sarama.StringEncoder(strings.ToUpper(string(order.Value)))
		if _, _, err := b.invoices.SendMessage(&sarama.ProducerMessage{Topic: "invoices", Value: value}); err != nil {
			return err
		}
		session.MarkMessage(order, "")
	}
	return nil
}

func main() {
	servers := []string{os.Getenv("BOOTSTRAP_SERVERS")}
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Producer.Return.Successes = true
	invoices, err := sarama.NewSyncProducer(servers, config)
	check(err)
	group, err := sarama.NewConsumerGroup(servers, "billing", config)
	check(err)
	for {
		check(group.Consume(context.Background(), []string{"orders"}, billing{invoices}))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
