package org.ep4j.jlama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import com.github.tjake.jlama.model.DistributedContext;
import com.github.tjake.jlama.safetensors.DType;
import com.github.tjake.jlama.safetensors.TensorInfo;
import com.github.tjake.jlama.safetensors.WeightLoader;
import com.github.tjake.jlama.tensor.AbstractTensor;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ranks as threads, against plain arithmetic. */
class ExpertParallelMixtralTest {
  /** Always the same: where experts or tokens are nearly equal, a last bit can decide. */
  private static final TinyMixtral MODEL = TinyMixtral.random(1);

  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int TOKENS = 8;

  /** A prompt for each rank. */
  private static final List<List<Integer>> PROMPTS =
      List.of(
          List.of(1, 5, 17, 40, 22),
          List.of(1, 60, 3),
          List.of(1, 9, 9, 33, 34, 35, 36, 20, 10),
          List.of(1, 50));

  @TempDir static Path directory;

  @BeforeAll
  static void write() throws IOException {
    MODEL.write(directory);
  }

  /** Three ranks have different numbers of experts; ranks end one after the other. */
  @Test
  void tokensAndLogitsAreThoseOfPlainArithmeticOnAnyNumberOfRanks() {
    Map<Integer, Decoder> first = new HashMap<>();
    for (int ranks = 1; ranks <= 4; ranks++) {
      List<Decoder> texts =
          ThreadRanks.call(
              ranks,
              group -> {
                try (var model = load(group)) {
                  int tokens = TOKENS + group.rank();
                  Decoder text = Decoder.run(model, PROMPTS.get(group.rank()), tokens);
                  model.serve();
                  return text;
                }
              });
      for (int rank = 0; rank < ranks; rank++) {
        Decoder text = texts.get(rank);
        if (first.putIfAbsent(rank, text) == null) {
          int prompt = PROMPTS.get(rank).size();
          assertClose(text, rank, PlainMixtral.rounded(MODEL, prompt));
        } else {
          assertThat(text.tokens()).isEqualTo(first.get(rank).tokens());
          assertThat(text.logits()).containsExactlyElementsOf(first.get(rank).logits());
        }
      }
    }
  }

  @Test
  void aRankLoadsItsOwnExpertsAlone() {
    List<Set<String>> loaded =
        ThreadRanks.call(
            2,
            group -> {
              Checkpoint checkpoint = Checkpoint.open(directory);
              var weights = new Recorder(checkpoint.weights(), new TreeSet<>());
              var recorded = new Checkpoint(checkpoint.config(), weights, checkpoint.tokenizer());
              ExpertParallelMixtral.load(recorded, group, TIMEOUT).close();
              return weights.names;
            });
    for (int rank = 0; rank < 2; rank++) {
      int other = 2 * (1 - rank);
      Set<String> expected = new TreeSet<>(MODEL.weights().keySet());
      expected.removeIf(name -> name.matches(".*experts[.][" + other + (other + 1) + "][.].*"));
      assertThat(loaded.get(rank)).isEqualTo(expected);
    }
  }

  @Test
  void ranksContinueWithoutTheExpertsOfALostOne() {
    int lost = 3;
    int steps = 4;
    List<Decoder> texts =
        ThreadRanks.call(
            4,
            group -> {
              try (var model = load(group)) {
                List<Integer> prompt = PROMPTS.get(group.rank());
                if (group.rank() == lost) {
                  Decoder text = Decoder.run(model, prompt, steps);
                  group.fail("the test ends it");
                  return text;
                }
                Decoder text = Decoder.run(model, prompt, TOKENS);
                model.serve();
                return text;
              }
            });
    for (int rank = 0; rank < lost; rank++) {
      int prompt = PROMPTS.get(rank).size();
      // The prompt is the first step.
      int lossAt = prompt + steps - 1;
      assertClose(
          texts.get(rank), rank, new PlainMixtral(MODEL, prompt, lossAt, expert -> expert == lost));
    }
  }

  @Test
  void aRankLostInTheMiddleOfAPromptEndsTheCallAndNotTheModel() {
    afterLossIn(
        Phase.PREFILL,
        model ->
            assertThatThrownBy(() -> Decoder.run(model, PROMPTS.get(0), 1))
                .isInstanceOf(PeerTimeoutException.class)
                .hasMessageContaining("the test ends it"));
  }

  @Test
  void aRankLostInTheMiddleOfATokenIsMasked() {
    afterLossIn(
        Phase.DECODE, model -> assertThat(Decoder.run(model, List.of(1), 3).tokens()).hasSize(3));
  }

  @FunctionalInterface
  private interface Call {
    void with(ExpertParallelMixtral model);
  }

  /** Rank 0 makes a call in whose first step rank 1 is lost, and then generates a text. */
  private static void afterLossIn(Phase phase, Call call) {
    Decoder text =
        ThreadRanks.call(
                2,
                group -> {
                  if (group.rank() == 1) {
                    Checkpoint checkpoint = Checkpoint.open(directory);
                    try (var exchange = ExpertExchange.open(group, checkpoint.config(), TIMEOUT)) {
                      assertThat(exchange.agree(Phase.SERVE)).isEqualTo(phase);
                      group.fail("the test ends it");
                    }
                    return List.<Decoder>of();
                  }
                  try (var model = load(group)) {
                    call.with(model);
                    return List.of(Decoder.run(model, PROMPTS.get(0), TOKENS));
                  }
                })
            .getFirst()
            .getFirst();
    int prompt = PROMPTS.get(0).size();
    assertClose(text, 0, new PlainMixtral(MODEL, prompt, 0, expert -> expert >= 2));
  }

  private static ExpertParallelMixtral load(Group group) {
    return ExpertParallelMixtral.load(directory, group, TIMEOUT);
  }

  private static void assertClose(Decoder text, int rank, PlainMixtral truth) {
    List<Integer> context = new ArrayList<>(PROMPTS.get(rank));
    for (int i = 0; i < text.tokens().size(); i++) {
      double[] expected = truth.logits(context);
      double[] logits = new double[expected.length];
      Arrays.setAll(logits, text.logits().get(i)::get);
      assertThat(logits).as("rank %d, token %d", rank, i).containsExactly(expected, within(1e-3));
      int best = 0;
      for (int token = 0; token < expected.length; token++) {
        best = expected[token] > expected[best] ? token : best;
      }
      assertThat(text.tokens().get(i)).as("rank %d, token %d", rank, i).isEqualTo(best);
      context.add(best);
    }
  }

  /** Notes the names of tensors that a model loads. */
  @SuppressWarnings({"rawtypes", "try"}) // signatures of Jlama
  private record Recorder(WeightLoader loader, Set<String> names) implements WeightLoader {
    @Override
    public Map<String, String> metadata() {
      return loader.metadata();
    }

    @Override
    public Map<String, TensorInfo> tensorInfoMap() {
      return loader.tensorInfoMap();
    }

    @Override
    public AbstractTensor load(
        String name, DistributedContext context, boolean sparseRows, boolean sparseColumns) {
      names.add(name);
      return loader.load(name, context, sparseRows, sparseColumns);
    }

    @Override
    public DType getModelDType() {
      return loader.getModelDType();
    }

    @Override
    public void close() throws Exception {
      loader.close();
    }
  }
}
