package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Tests of the engine's host half on the fake driver, which are skipped in other processes. After
 * each test nothing may be alive, and the driver may have refused nothing.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@Tag("fake-driver")
@ExtendWith(OnFakeDriver.Extension.class)
@interface OnFakeDriver {
  /** Resets the fake before each test and checks it afterwards. */
  final class Extension implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback {
    @Override
    public void beforeAll(ExtensionContext context) {
      FakeDriver.require();
    }

    @Override
    public void beforeEach(ExtensionContext context) {
      FakeDriver.reset();
      FakeKernels.define();
    }

    @Override
    public void afterEach(ExtensionContext context) {
      if (context.getExecutionException().isEmpty()) {
        assertThat(FakeDriver.live()).as("not released").isEmpty();
        assertThat(FakeDriver.misuse()).as("refused by the driver").isEmpty();
      }
    }
  }
}
