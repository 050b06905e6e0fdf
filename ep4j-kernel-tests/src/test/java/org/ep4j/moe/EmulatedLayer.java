package org.ep4j.moe;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.cuda.emulator.EmulatedLibrary;
import org.ep4j.moe.gpu.MoeSources;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** A layer on an {@link EmulatedDevice}, with memory of the host that tensors name as the GPU's. */
record EmulatedLayer(MoeLayer layer, Arena arena) implements TestDevice {
  /** Opens the layer of a rank. */
  static final class Opener implements Kind {
    @Override
    public BufferConfig.Builder config(LayerCase of, int tokens) {
      return EmulatedLayer.config(of.shape(), of.placement(), tokens);
    }

    @Override
    public TestDevice open(ExpertBuffer buffer, LayerCase of) {
      return new EmulatedLayer(
          EmulatedLayer.open(buffer, of.layer(), of.placement(), of.typeOfTokens()),
          Arena.ofShared());
    }
  }

  /** The kernels, once a process. */
  private static final class Kernels {
    private static final EmulatedLibrary LIBRARY = compiled();

    private static EmulatedLibrary compiled() {
      try {
        Path directory = Files.createTempDirectory("ep4j-moe");
        EmulatedLibrary library =
            EmulatedLibrary.compile(directory, MoeSources.ENTRY, MoeSources.files());
        // A library that is loaded needs no file.
        try (Stream<Path> files = Files.walk(directory)) {
          files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
        return library;
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
    }
  }

  static EmulatedLibrary kernels() {
    return Kernels.LIBRARY;
  }

  /** A buffer of the host whose rows are those of a GPU. */
  static BufferConfig.Builder config(MoeShape shape, ReplicatedPlacement placement, int tokens) {
    return MoeLayer.bufferConfig(EngineName.HOST, shape, placement, tokens, DType.BF16);
  }

  static MoeLayer open(
      ExpertBuffer buffer, RandomLayer layer, ReplicatedPlacement placement, DType tokens) {
    var device = new EmulatedDevice(Kernels.LIBRARY, buffer.rank() % 2 == 0);
    return new MoeLayer(
        device,
        DeviceTensors.over(buffer, device),
        layer.shape(),
        placement,
        layer.weights(placement, buffer.rank()),
        Optional.of(tokens));
  }

  @Override
  public Tensor upload(float[] values, DType type, int hidden) {
    Tensor host = Tensor.allocate(arena, type, values.length / hidden, hidden);
    Tensor tensor = Tensor.ofDevice(host.address(), 0, type, host.shape());
    write(tensor, values);
    return tensor;
  }

  @Override
  public void write(Tensor tensor, float[] values) {
    if (values.length > 0) {
      DeviceTensors.onHost(tensor).copyFrom(values);
    }
  }

  @Override
  public float[] values(Tensor tensor) {
    return DeviceTensors.onHost(tensor).toFloatArray();
  }

  @Override
  public void close() {
    layer.close();
    arena.close();
  }
}
