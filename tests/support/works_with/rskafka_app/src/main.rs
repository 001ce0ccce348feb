//! rskafka, which has no consumer groups: it reads from the beginning each time.
use std::{collections::BTreeMap, env, sync::Arc};

use futures::StreamExt;
use rskafka::client::ClientBuilder;
use rskafka::client::consumer::{StartOffset, StreamConsumerBuilder};
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::record::Record;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = ClientBuilder::new(vec![env::var("BOOTSTRAP_SERVERS")?]).build().await?;
    let orders = client.partition_client("orders", 0, UnknownTopicHandling::Retry).await?;
    let invoices = client.partition_client("invoices", 0, UnknownTopicHandling::Retry).await?;
    let mut read = StreamConsumerBuilder::new(Arc::new(orders), StartOffset::Earliest).build();
    while let Some(order) = read.next().await {
        let (order, _) = order?;
        let value = order.record.value.unwrap_or_default().to_ascii_uppercase();
        let timestamp = order.record.timestamp;
        let invoice = Record { key: None, value: Some(value), headers: BTreeMap::new(), timestamp };
        invoices.produce(vec![invoice], Compression::NoCompression).await?;
    }
    Ok(())
}
