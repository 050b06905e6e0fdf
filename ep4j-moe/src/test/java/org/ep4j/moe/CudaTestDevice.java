package org.ep4j.moe;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** The GPU of a rank. */
final class CudaTestDevice implements TestDevice {
  /** Opens the GPU of a buffer. */
  static final class Gpu implements Kind {
    @Override
    public BufferConfig.Builder config(LayerCase of, int tokens) {
      return MoeLayer.bufferConfig(EngineName.CUDA, of.shape(), of.placement(), tokens);
    }

    @Override
    public TestDevice open(ExpertBuffer buffer, LayerCase of) {
      MoeWeights weights = of.layer().weights(of.placement(), buffer.rank());
      return new CudaTestDevice(
          buffer, new MoeLayer(buffer, of.shape(), of.placement(), weights, of.typeOfTokens()));
    }
  }

  private final CudaDevice device;
  private final MoeLayer layer;
  private final List<DeviceMemory> memory = new ArrayList<>();

  /** Closes the layer. */
  CudaTestDevice(ExpertBuffer buffer, MoeLayer layer) {
    this.layer = layer;
    device = CudaDevice.open(buffer.deviceOrdinal().orElseThrow());
  }

  @Override
  public MoeLayer layer() {
    return layer;
  }

  @Override
  public Tensor upload(float[] values, DType type, int hidden) {
    DeviceMemory part = DeviceMemory.allocate(device, Math.max(1, type.bytes(values.length)));
    memory.add(part);
    int rows = values.length / hidden;
    Tensor tensor = Tensor.ofDevice(part.address(), device.ordinal(), type, rows, hidden);
    write(tensor, values);
    return tensor;
  }

  @Override
  public void write(Tensor tensor, float[] values) {
    if (values.length > 0) {
      tensor.copyFrom(values);
    }
  }

  @Override
  public float[] values(Tensor tensor) {
    return tensor.toFloatArray();
  }

  @Override
  public void close() {
    layer.close();
    memory.forEach(DeviceMemory::close);
    device.close();
  }
}
