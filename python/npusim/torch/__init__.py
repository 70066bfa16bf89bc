"""What needs PyTorch, in rooms: each imports from itself and from those before it, in this order.

    facts, forms, tracing, functional, passes, writing

Behind them lies what is called from outside: export, compile, text_export. What is not in this folder does without
PyTorch, but for npusim.torch_compile, and gets here by npusim.parts. No function is defined in this file: of each call
that it traces PyTorch notes the lines of files that end with torch/__init__.py."""
