package org.ep4j.wire;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import org.ep4j.conformance.wire.CarriedWireProvider;
import org.ep4j.group.Group;

/** The wire {@code carried}, which closes well and then reports an error. */
public final class BadEndWireProvider implements WireProvider {
  static final String NAME = "bad-end";
  static final String ERROR = "the cable was gone at the end";

  /** Used by the service loader. */
  public BadEndWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return "";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    Wire wire = new CarriedWireProvider().open(group, config);
    return (Wire)
        Proxy.newProxyInstance(
            Wire.class.getClassLoader(),
            new Class<?>[] {Wire.class},
            (proxy, method, arguments) -> {
              Object result;
              try {
                result = method.invoke(wire, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
              if (method.getName().equals("close")) {
                throw new IllegalStateException(ERROR);
              }
              return result;
            });
  }
}
