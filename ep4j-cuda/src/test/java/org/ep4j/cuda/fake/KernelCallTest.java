package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.KernelConstants;
import org.ep4j.cuda.struct.LayoutParameters;
import org.ep4j.error.IllegalUseException;
import org.junit.jupiter.api.Test;

/**
 * A driver refuses functions of a module that is no longer loaded: so it shows which one is
 * launched.
 */
@OnFakeDriver
class KernelCallTest {
  @Test
  void anOperationOfAnotherShapeLaunchesTheKernelOfAnyShape() {
    try (CudaDevice device = CudaDevice.open(0);
        CudaStream stream = CudaStream.create(device);
        CudaModule ofBuffer = load(device)) {
      CudaModule ofAnyShape = load(device);
      try (KernelCall<LayoutParameters> call =
          new KernelCall<>(
              ofBuffer,
              ofAnyShape,
              "layout_kernel",
              new LayoutParameters(),
              Kernels.LAYOUT_THREADS,
              0,
              false)) {
        ofAnyShape.close();
        device.makeCurrent();
        call.launch(1, 0, stream.handle());
        call.choose(false);
        assertThatThrownBy(() -> call.launch(1, 0, stream.handle()))
            .isInstanceOf(IllegalUseException.class);
        call.choose(true);
        call.launch(1, 0, stream.handle());
      }
    }
  }

  private static CudaModule load(CudaDevice device) {
    return KernelCompiler.standard().load(device, "dispatch/layout.cu", KernelConstants.NONE);
  }
}
