// Watermill at its defaults but for where a new group begins: a router with one handler.
package main

import (
	"bytes"
	"context"
	"os"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
)

func main() {
	servers := []string{os.Getenv("BOOTSTRAP_SERVERS")}
	logger := watermill.NewStdLogger(false, false)
	settings := kafka.DefaultSaramaSubscriberConfig()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	marshaler := kafka.DefaultMarshaler{}

	orders, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: servers, Unmarshaler: marshaler, ConsumerGroup: "billing", OverwriteSaramaConfig: settings}, logger)
	check(err)
	invoices, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: servers, Marshaler: marshaler}, logger)
	check(err)
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	check(err)
	router.AddHandler("bill", "orders", orders, "invoices", invoices, func(order *message.Message) ([]*message.Message, error) {
		return message.Messages{message.NewMessage(watermill.NewUUID(), bytes.ToUpper(order.Payload))}, nil
	})
	check(router.Run(context.Background()))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
