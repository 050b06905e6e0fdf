package org.ep4j.jlama;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.github.tjake.jlama.model.AbstractModel;
import com.github.tjake.jlama.model.mixtral.MixtralModel;
import com.github.tjake.jlama.safetensors.Config;
import com.github.tjake.jlama.safetensors.DType;
import com.github.tjake.jlama.tensor.AbstractTensor;
import com.github.tjake.jlama.tensor.KvBufferCache;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.ep4j.group.Group;

/**
 * Measures how a decode step splits into attention, experts, waiting and ep4j: {@code
 * DecodeBenchmark DIRECTORY FILE [Q4]}, as a rank of the launcher on one host. If the directory of
 * the checkpoint does not exist, rank 0 makes it, with random weights, and with {@code Q4}
 * quantized by Jlama. Each rank decodes texts of its own, and rank 0 writes JSON. In a world of one
 * rank, Jlama's own Mixtral decodes as many texts, in turn. docs/jlama.md shows runs.
 */
final class DecodeBenchmark {
  private static final Duration TIMEOUT = Duration.ofMinutes(4);
  private static final int WARM_UP = 3;
  private static final int TEXTS = 10;
  private static final int TOKENS = 120;

  private DecodeBenchmark() {}

  public static void main(String... arguments) throws IOException {
    Path directory = Path.of(arguments[0]);
    try (Group group = Group.fromEnvironment()) {
      if (group.rank() == 0 && Files.notExists(directory)) {
        make(directory, arguments.length > 2 ? DType.valueOf(arguments[2]) : DType.F32);
      }
      group.barrier(TIMEOUT);
      String result = measure(group, directory);
      if (group.rank() == 0) {
        Files.writeString(Path.of(arguments[1]), result);
        System.out.print(result);
      }
    }
  }

  /** The directory appears when it is complete. */
  private static void make(Path directory, DType weights) throws IOException {
    Path part = Files.createTempDirectory(directory.toAbsolutePath().getParent(), "part");
    TinyMixtral model = TinyMixtral.larger(1);
    if (weights == DType.F32) {
      model.write(part);
      Files.move(part, directory);
    } else {
      model.writeQuantized(weights, part.resolve("quantized"));
      Files.move(part.resolve("quantized"), directory);
    }
  }

  private static String measure(Group group, Path directory) throws IOException {
    StepLog log = new StepLog();
    Checkpoint checkpoint = Checkpoint.open(directory);
    checkpoint.check();
    TimedExchange exchange = TimedExchange.open(group, checkpoint.config(), TIMEOUT, log);
    try (var model = ExpertParallelMixtral.load(checkpoint, exchange)) {
      if (group.size() > 1) {
        return measure(group, model, log, Optional.empty());
      }
      try (MixtralModel jlama = jlama(Checkpoint.open(directory))) {
        return measure(group, model, log, Optional.of(jlama));
      }
    }
  }

  private static MixtralModel jlama(Checkpoint checkpoint) {
    return new MixtralModel(
        checkpoint.config(),
        checkpoint.weights(),
        checkpoint.tokenizer(),
        DType.F32,
        DType.I8,
        Optional.empty());
  }

  private static String measure(
      Group group, ExpertParallelMixtral model, StepLog log, Optional<MixtralModel> jlama)
      throws IOException {
    double loadBefore = load();
    int layers = model.getConfig().numberOfLayers;
    List<List<StepParts>> texts = new ArrayList<>();
    List<List<StepParts>> jlamaTexts = new ArrayList<>();
    for (int text = -WARM_UP; text < TEXTS; text++) {
      decode(model, group.rank(), log);
      byte[][] logs = group.allGather(log.toBytes(), TIMEOUT);
      log.clear();
      jlama.ifPresent(plain -> decode(plain, group.rank(), log));
      byte[] jlamaLog = log.toBytes();
      log.clear();
      if (text >= 0) {
        texts.add(StepParts.of(logs, layers));
        jlamaTexts.add(StepParts.ofJlama(jlamaLog));
      }
    }
    Config config = model.getConfig();
    Map<String, Object> report = new LinkedHashMap<>();
    report.put("date", Instant.now().toString());
    report.put("java", Runtime.version().toString());
    report.put("processors", Runtime.getRuntime().availableProcessors());
    report.put("load", List.of(loadBefore, load()));
    report.put("hidden", config.embeddingLength);
    report.put("inner", config.hiddenLength);
    report.put("layers", layers);
    report.put("weights", model.getWeights().getModelDType().toString());
    report.put("ranks", group.size());
    report.put("texts", TEXTS);
    report.put("steps_of_a_text", TOKENS);
    report.put("ep4j", values(texts));
    if (jlama.isPresent()) {
      report.put("jlama", values(jlamaTexts));
    }
    return new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(report);
  }

  private static Map<String, Map<String, Double>> values(List<List<StepParts>> texts) {
    StepParts all = StepParts.middle(texts.stream().flatMap(List::stream).toList());
    StepParts fastest =
        texts.stream()
            .map(StepParts::middle)
            .min(Comparator.comparingDouble(StepParts::step))
            .orElseThrow();
    return Map.of("all_texts", all.values(), "fastest_text", fastest.values());
  }

  /** Threads of the host that run or wait for a core, on average of the last minute. */
  private static double load() throws IOException {
    return Double.parseDouble(Files.readString(Path.of("/proc/loadavg")).split(" ")[0]);
  }

  /** Generates a text that begins with another token on each rank. */
  @SuppressWarnings("rawtypes") // signatures of Jlama
  private static void decode(AbstractModel model, int rank, StepLog log) {
    int token = TinyMixtral.EOS + 1 + rank;
    try (KvBufferCache cache = new KvBufferCache(model);
        KvBufferCache.KvBuffer memory = cache.getEphemeralKvBuffer();
        AbstractTensor logits = model.makeDenseTensor(1, model.getConfig().vocabularySize)) {
      for (int position = 0; position < TOKENS; position++) {
        log.now();
        AbstractTensor row = model.forward(token, position, memory, Optional.empty());
        token = model.sample(row, 0, 0, logits);
        log.now();
      }
    }
  }
}
