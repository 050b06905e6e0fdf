package org.ep4j.cuda.driver;

import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.TreeMap;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.compiler.Nvrtc;
import org.ep4j.cuda.fake.FakeDriver;
import org.ep4j.cuda.jit.KernelSources;
import org.ep4j.cuda.jit.KernelSpec;

/**
 * Requirements of tests that not every machine meets; a test without them is skipped with the
 * reason.
 */
public final class Gpu {
  private Gpu() {}

  /** Device 0; the caller closes it. */
  public static CudaDevice open() {
    require(1);
    CudaDevice device = CudaDevice.open(0);
    device.makeCurrent();
    return device;
  }

  /** Skips the test if fewer than {@code devices} devices are visible. */
  public static void require(int devices) {
    assumeFalse(FakeDriver.isSelected(), "no GPU: the driver of this process is a fake");
    assumeTrue(CudaDriver.find().found(), () -> "no GPU: " + CudaDriver.find().problem());
    assumeTrue(
        CudaDevice.count() >= devices,
        () -> devices + " GPUs are needed, this machine has " + CudaDevice.count() + "");
  }

  /** Compiles a test's own kernel for a device; skips the test without NVRTC. */
  static CudaModule compile(CudaDevice device, String source) {
    requireNvrtc();
    TreeMap<String, String> files = new TreeMap<>();
    files.put("test.cu", source);
    KernelSpec spec =
        new KernelSpec(new KernelSources("test.cu", files), new TreeMap<>(), device.architecture());
    Nvrtc.Result result =
        Nvrtc.compile("test.cu", source, new TreeMap<>(), spec.options(), Nvrtc.Output.CUBIN);
    return CudaModule.load(device, result.image(), "test.cu");
  }

  /** Skips the test without NVRTC. */
  public static void requireNvrtc() {
    assumeTrue(Nvrtc.find().found(), () -> Nvrtc.find().problem());
  }
}
