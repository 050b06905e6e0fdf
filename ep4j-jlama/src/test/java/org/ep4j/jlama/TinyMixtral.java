package org.ep4j.jlama;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.StandardOpenOption.CREATE;
import static java.nio.file.StandardOpenOption.TRUNCATE_EXISTING;
import static java.nio.file.StandardOpenOption.WRITE;

import com.github.tjake.jlama.safetensors.DType;
import com.github.tjake.jlama.safetensors.SafeTensorSupport;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A Mixtral with random weights, and its files in Hugging Face's format. Each token behind the
 * special ones is one character, so that texts are equal only if their tokens are.
 *
 * @param weights by name, row-major
 * @param shapes by name
 */
record TinyMixtral(
    int hidden,
    int inner,
    int heads,
    int keyHeads,
    int layers,
    int experts,
    int topK,
    Map<String, float[]> weights,
    Map<String, long[]> shapes) {
  static final int BOS = 1;
  static final int EOS = 2;
  static final int VOCABULARY = 64;
  static final int CONTEXT = 128;
  static final double EPSILON = 1e-5;
  static final double THETA = 10_000;

  /** The character of the first token that is not special. */
  private static final char FIRST = '0';

  /** Writes the files of a random model into a directory. */
  public static void main(String... arguments) throws IOException {
    random(1).write(Files.createDirectories(Path.of(arguments[0])));
  }

  static TinyMixtral random(long seed) {
    return random(seed, 128, 96, 4, 2, 2, 4, 2);
  }

  /** The proportions of Mixtral 8x7B, a quarter of its hidden size, and four layers: 1.5 GB. */
  static TinyMixtral larger(long seed) {
    return random(seed, 1024, 3584, 16, 4, 4, 8, 2);
  }

  static TinyMixtral random(
      long seed,
      int hidden,
      int inner,
      int heads,
      int keyHeads,
      int layers,
      int experts,
      int topK) {
    var model =
        new TinyMixtral(
            hidden,
            inner,
            heads,
            keyHeads,
            layers,
            experts,
            topK,
            new LinkedHashMap<>(),
            new LinkedHashMap<>());
    var random = new Random(seed);
    int keys = hidden / heads * keyHeads;
    model.matrix(random, "model.embed_tokens.weight", VOCABULARY, hidden);
    for (int layer = 0; layer < layers; layer++) {
      String prefix = "model.layers." + layer + ".";
      model.norm(random, prefix + "input_layernorm.weight");
      model.norm(random, prefix + "post_attention_layernorm.weight");
      model.matrix(random, prefix + "self_attn.q_proj.weight", hidden, hidden);
      model.matrix(random, prefix + "self_attn.k_proj.weight", keys, hidden);
      model.matrix(random, prefix + "self_attn.v_proj.weight", keys, hidden);
      model.matrix(random, prefix + "self_attn.o_proj.weight", hidden, hidden);
      prefix += "block_sparse_moe.";
      model.matrix(random, prefix + "gate.weight", experts, hidden);
      for (int expert = 0; expert < experts; expert++) {
        String name = prefix + "experts." + expert + ".";
        model.matrix(random, name + "w1.weight", inner, hidden);
        model.matrix(random, name + "w2.weight", hidden, inner);
        model.matrix(random, name + "w3.weight", inner, hidden);
      }
    }
    model.norm(random, "model.norm.weight");
    model.matrix(random, "lm_head.weight", VOCABULARY, hidden);
    return model;
  }

  /** Products of normal rows have a variance of a quarter of the row's. */
  private void matrix(Random random, String name, int rows, int columns) {
    float[] values = new float[rows * columns];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) (random.nextGaussian() * 0.5 / Math.sqrt(columns));
    }
    weights.put(name, values);
    shapes.put(name, new long[] {rows, columns});
  }

  private void norm(Random random, String name) {
    float[] values = new float[hidden];
    for (int i = 0; i < hidden; i++) {
      values[i] = 1 + 0.1f * (float) random.nextGaussian();
    }
    weights.put(name, values);
    shapes.put(name, new long[] {hidden});
  }

  float[] weight(String name) {
    float[] values = weights.get(name);
    if (values == null) {
      throw new IllegalArgumentException(name);
    }
    return values;
  }

  void write(Path directory) throws IOException {
    Files.writeString(directory.resolve("config.json"), config("mixtral"));
    Files.writeString(directory.resolve("tokenizer.json"), tokenizer());
    writeWeights(directory);
  }

  /** Writes the files as Jlama quantizes them, into a directory that does not exist yet. */
  void writeQuantized(DType weights, Path directory) throws IOException {
    Path plain = directory.resolveSibling(directory.getFileName() + ".plain");
    write(Files.createDirectories(plain));
    Files.writeString(plain.resolve("README.md"), "Random weights"); // Jlama copies it
    SafeTensorSupport.quantizeModel(
        plain, weights, new String[0], new String[0], Optional.of(directory));
  }

  String config(String type) {
    return """
    {"model_type": "%s", "max_position_embeddings": %d, "hidden_size": %d,
     "intermediate_size": %d, "num_attention_heads": %d, "num_key_value_heads": %d,
     "num_hidden_layers": %d, "rms_norm_eps": %s, "vocab_size": %d, "bos_token_id": %d,
     "eos_token_id": %d, "rope_theta": %s, "hidden_act": "silu",
     "num_local_experts": %d, "num_experts_per_tok": %d}
    """
        .formatted(
            type,
            CONTEXT,
            hidden,
            inner,
            heads,
            keyHeads,
            layers,
            EPSILON,
            VOCABULARY,
            BOS,
            EOS,
            THETA,
            experts,
            topK);
  }

  private static String tokenizer() {
    String characters =
        IntStream.range(EOS + 1, VOCABULARY)
            .mapToObj(id -> "\"" + (character(id) == '\\' ? "\\\\" : character(id)) + "\": " + id)
            .collect(Collectors.joining(", "));
    return """
    {"model": {"type": "BPE", "unk_token": "<unk>", "merges": [],
       "vocab": {"<unk>": 0, "<s>": %d, "</s>": %d, %s}},
     "added_tokens": [{"id": %d, "content": "<s>", "special": true},
       {"id": %d, "content": "</s>", "special": true}]}
    """
        .formatted(BOS, EOS, characters, BOS, EOS);
  }

  static char character(int id) {
    return (char) (FIRST + id - EOS - 1);
  }

  static int token(char character) {
    return character - FIRST + EOS + 1;
  }

  void writeWeights(Path directory) throws IOException {
    var header = new StringBuilder("{");
    long offset = 0;
    for (var entry : weights.entrySet()) {
      long end = offset + 4L * entry.getValue().length;
      header
          .append(header.length() == 1 ? "" : ",")
          .append('"')
          .append(entry.getKey())
          .append("\":{\"dtype\":\"F32\",\"shape\":")
          .append(Arrays.toString(shapes.get(entry.getKey())))
          .append(",\"data_offsets\":[")
          .append(offset)
          .append(',')
          .append(end)
          .append("]}");
      offset = end;
    }
    header.append('}');
    header.append(" ".repeat((8 - header.length() % 8) % 8));
    byte[] text = header.toString().getBytes(UTF_8);
    try (FileChannel file =
        FileChannel.open(
            directory.resolve("model.safetensors"), CREATE, TRUNCATE_EXISTING, WRITE)) {
      write(file, littleEndian(8 + text.length).putLong(text.length).put(text));
      for (float[] values : weights.values()) {
        ByteBuffer bytes = littleEndian(4 * values.length);
        bytes.asFloatBuffer().put(values);
        write(file, bytes.position(bytes.capacity()));
      }
    }
  }

  private static ByteBuffer littleEndian(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static void write(FileChannel file, ByteBuffer bytes) throws IOException {
    bytes.flip();
    while (bytes.hasRemaining()) {
      file.write(bytes);
    }
  }
}
