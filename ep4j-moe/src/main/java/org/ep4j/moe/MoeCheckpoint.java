package org.ep4j.moe;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * The Mixture-of-Experts layers of a checkpoint in Hugging Face's format: Mixtral, Qwen3-MoE or
 * DeepSeek-V3, in one file or several. Files are mapped; a rank reads its own experts alone.
 *
 * <p>DeepSeek-V3's FP8 matrices have a factor ({@code weight_scale_inv}) for each block of 128 by
 * 128 elements, which the weights of experts keep.
 */
public final class MoeCheckpoint implements AutoCloseable {
  private static final String ONE_FILE = "model.safetensors";
  private static final String INDEX = "model.safetensors.index.json";
  private static final String FACTORS = "_scale_inv";

  private final MoeModel model;
  private final Path directory;

  /** By name of a tensor. */
  private final Map<String, SafetensorsFile> files = new TreeMap<>();

  private final List<SafetensorsFile> open = new ArrayList<>();

  private MoeCheckpoint(Path directory, MoeModel model) {
    this.directory = directory;
    this.model = model;
  }

  /**
   * Opens the checkpoint in a directory.
   *
   * @throws InvalidArgumentException if {@code config.json} is missing, invalid or describes
   *     another model, or a file of the index is missing
   */
  public static MoeCheckpoint open(Path directory) {
    MoeModel model = MoeModel.read(directory.resolve("config.json"));
    var checkpoint = new MoeCheckpoint(directory, model);
    try {
      for (String file : checkpoint.fileNames()) {
        SafetensorsFile tensors = SafetensorsFile.open(directory.resolve(file));
        checkpoint.open.add(tensors);
        tensors.names().forEach(name -> checkpoint.files.put(name, tensors));
      }
      return checkpoint;
    } catch (RuntimeException e) {
      checkpoint.close();
      throw e;
    }
  }

  private Set<String> fileNames() {
    if (Files.exists(directory.resolve(ONE_FILE))) {
      return Set.of(ONE_FILE);
    }
    Path index = directory.resolve(INDEX);
    Map<String, Object> json = MoeModel.json(index);
    if (!(json.get("weight_map") instanceof Map<?, ?> names)) {
      throw MoeModel.refused(index, "weight_map is missing");
    }
    Set<String> distinct = new TreeSet<>();
    names.values().forEach(name -> distinct.add(String.valueOf(name)));
    for (String name : distinct) {
      if (!Files.exists(directory.resolve(name))) {
        throw MoeModel.refused(directory.resolve(name), "is missing, and the index names it");
      }
    }
    return distinct;
  }

  /** The sizes of all its layers. */
  public MoeShape shape() {
    return model.shape();
  }

  /** Numbers of the layers that have experts, ascending. */
  public List<Integer> layers() {
    return model.layers();
  }

  /**
   * The weights of a layer on a rank; the experts that the placement names there.
   *
   * @throws InvalidArgumentException if the layer has no experts, or tensors are missing, unknown
   *     or have another shape
   */
  public MoeWeights weights(int layer, ExpertPlacement placement, int rank) {
    return weights(layer, ReplicatedPlacement.of(placement), rank);
  }

  /**
   * The same weights with replicas: of each physical expert on the rank those of its logical one.
   *
   * @throws InvalidArgumentException as without replicas
   */
  public MoeWeights weights(int layer, ReplicatedPlacement placement, int rank) {
    if (!layers().contains(layer)) {
      throw new InvalidArgumentException(
          ErrorCode.CHECKPOINT_TENSORS,
          "layer",
          String.valueOf(layer),
          "one of " + layers(),
          "pass a layer that has experts");
    }
    String prefix = model.prefix(layer);
    checkNames(prefix);
    List<ExpertWeights> experts = new ArrayList<>();
    ExpertPlacement physical = placement.placement();
    for (int local = 0; local < physical.localExperts(rank); local++) {
      int expert = placement.logicalOf(physical.expertAt(rank, local));
      String name = prefix + "experts." + expert + ".";
      experts.add(expert(name, shape().intermediate()));
    }
    int shared = shape().sharedIntermediate();
    return new MoeWeights(
        unquantised(prefix + "gate.weight", shape().router().experts(), shape().hidden()),
        model.hasBias() ? Optional.of(bias(prefix + MoeModel.BIAS)) : Optional.empty(),
        experts,
        shared > 0 ? Optional.of(expert(prefix + "shared_experts.", shared)) : Optional.empty());
  }

  private ExpertWeights expert(String name, int intermediate) {
    int hidden = shape().hidden();
    String w1 = name + model.w1() + ".weight";
    String w3 = name + model.w3() + ".weight";
    String w2 = name + model.w2() + ".weight";
    boolean inFp8 =
        Stream.of(w1, w3, w2).allMatch(matrix -> found(matrix).dtype() == DType.FP8_E4M3);
    if (!inFp8) {
      return new ExpertWeights(
          unquantised(w1, intermediate, hidden),
          unquantised(w3, intermediate, hidden),
          unquantised(w2, hidden, intermediate));
    }
    return new ExpertWeights(
        tensor(w1, intermediate, hidden),
        tensor(w3, intermediate, hidden),
        tensor(w2, hidden, intermediate),
        Optional.of(
            new ExpertWeights.Factors(
                factors(w1, intermediate, hidden),
                factors(w3, intermediate, hidden),
                factors(w2, hidden, intermediate))));
  }

  /** Refuses a layer with other tensors than its model has. */
  private void checkNames(String prefix) {
    Set<String> expected = model.names(prefix);
    Set<String> found = new TreeSet<>();
    for (String name : files.keySet()) {
      if (name.startsWith(prefix)) {
        found.add(name);
      }
    }
    Set<String> missing = new TreeSet<>(expected);
    missing.removeAll(found);
    Set<String> unknown = new TreeSet<>(found);
    unknown.removeAll(expected);
    unknown.removeIf(
        name ->
            name.endsWith(FACTORS)
                && expected.contains(name.substring(0, name.length() - FACTORS.length())));
    if (!missing.isEmpty() || !unknown.isEmpty()) {
      boolean lacks = !missing.isEmpty();
      List<String> names = List.copyOf(lacks ? missing : unknown);
      throw new InvalidArgumentException(
          ErrorCode.CHECKPOINT_TENSORS,
          (lacks ? "missing" : "unknown") + " tensors",
          names.getFirst() + (names.size() > 1 ? " and " + (names.size() - 1) + " more" : ""),
          "none in " + prefix + " of " + directory,
          "use weights and config.json of one checkpoint");
    }
  }

  private Tensor bias(String name) {
    int experts = shape().router().experts();
    Tensor tensor = found(name);
    checkShape(name, tensor, experts);
    return tensor;
  }

  private Tensor tensor(String name, int rows, int columns) {
    Tensor tensor = found(name);
    checkShape(name, tensor, rows, columns);
    return tensor;
  }

  private Tensor unquantised(String name, int rows, int columns) {
    Tensor tensor = tensor(name, rows, columns);
    if (tensor.dtype() != DType.FP8_E4M3) {
      return tensor;
    }
    Optional<Tensor> factors = Optional.of(factors(name, rows, columns));
    return Expert.tensor(Expert.matrix(name, tensor, factors, rows, columns));
  }

  private Tensor factors(String name, int rows, int columns) {
    int block = ExpertWeights.BLOCK;
    return tensor(name + FACTORS, (rows + block - 1) / block, (columns + block - 1) / block);
  }

  private Tensor found(String name) {
    SafetensorsFile file = files.get(name);
    if (file == null) {
      throw new InvalidArgumentException(
          ErrorCode.CHECKPOINT_TENSORS,
          "missing tensors",
          name,
          "none in " + directory,
          "use weights and config.json of one checkpoint");
    }
    return file.tensor(name);
  }

  private static void checkShape(String name, Tensor tensor, long... shape) {
    if (!Arrays.equals(tensor.shape(), shape)) {
      throw new InvalidArgumentException(
          ErrorCode.CHECKPOINT_SHAPE,
          name,
          tensor.toString(),
          Arrays.toString(shape) + ", as config.json says",
          "use the config.json of these weights");
    }
  }

  /** Unmaps the files. Tensors of {@link #weights} are invalid from then on; layers have copies. */
  @Override
  public void close() {
    open.forEach(SafetensorsFile::close);
  }
}
